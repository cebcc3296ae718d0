"""Arguments and options that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from coatcheck.errors import InvalidArgument

TOKEN_VARIABLE = "COATCHECK_TOKEN"
MODES = ("auto", "2026-07-28", "2025-11-25")
_CONNECTING, _OUTPUT = "Connecting", "Output"

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="A URL, a quoted command line, or a name in `.mcp.json`.")
]
Identifier = Annotated[
    str, typer.Argument(metavar="ID", help="The task's id, or enough of its beginning; `coatcheck tasks` lists them.")
]
OtherTarget = Annotated[
    str | None,
    typer.Option("--target", help="Where the task is, if it was not handed in from here.", rich_help_panel=_CONNECTING),
]
OneServer = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="Only what is at this server; needed where a token is for one of several.",
        rich_help_panel=_CONNECTING,
    ),
]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", help="`Name: value`, sent along; repeat it.", rich_help_panel=_CONNECTING),
]
Token = Annotated[
    str | None, typer.Option("--token", envvar=TOKEN_VARIABLE, help="A bearer token.", rich_help_panel=_CONNECTING)
]
Mode = Annotated[
    str, typer.Option("--mode", help=f"The generation of MCP: {', '.join(MODES)}.", rich_help_panel=_CONNECTING)
]
Poll = Annotated[
    bool, typer.Option("--poll", help="Ask for news now and then, do not be told.", rich_help_panel=_CONNECTING)
]
AsJSON = Annotated[
    bool, typer.Option("--json", help="Print JSON: one object in a line for each result.", rich_help_panel=_OUTPUT)
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show no progress, print the result only.", rich_help_panel=_OUTPUT)
]
Timeout = Annotated[
    str | None,
    typer.Option("--timeout", help="Wait this long, as `90` or `15m`, then leave it running (exit code 124)."),
]
Arguments = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Arguments; `key:=JSON` for raw JSON.")
]
Input = Annotated[
    str | None, typer.Option("--input", "-i", metavar="FILE", help="Take arguments from a JSON file; `-` is stdin.")
]


@dataclass(frozen=True)
class Access:
    """How to be let in."""

    headers: dict[str, str]
    token: str | None
    mode: str = "auto"
    is_polling: bool = False
    has_ledger: bool = True


def access(
    headers: Sequence[str] | None,
    token: str | None,
    mode: str = "auto",
    is_polling: bool = False,
    has_ledger: bool = True,
) -> Access:
    """Take the options about connecting together.

    Raises:
        InvalidArgument: One of them makes no sense.
    """
    if mode not in MODES:
        raise InvalidArgument(f"There is no mode {mode!r}; it is one of {', '.join(MODES)}.")
    return Access(dict(map(_header, headers or ())), token, mode, is_polling, has_ledger)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or " " in name.strip() or not text.isprintable():
        raise InvalidArgument("One of the headers is none; write --header 'Name: value'.")  # it may be a secret
    return name.strip(), value.strip()
