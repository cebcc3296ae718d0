"""Options that all commands have which serve, and what they may say."""

from __future__ import annotations

from typing import Annotated

import typer

from coatcheck.cli.logs import LogFormat
from coatcheck.errors import InvalidArgument

Target = Annotated[str, typer.Argument(help="The server: `module:server`, or `path/to/file.py:server`.")]
STORE_HELP = (
    "as `sqlite:///tasks.db`, `redis://host/0` or `postgresql://user@host/database`. "
    "[default: what the server says, else a file in the user's state folder]"
)
_DOCKET_HELP = "Have Docket carry tasks to those who run them, in the Redis at this URL; servers and workers alike."
DocketURL = Annotated[str | None, typer.Option(help=_DOCKET_HELP)]
Path = Annotated[str, typer.Option(help="Path of the HTTP endpoint.")]
_LENIENT_HELP = "Serve clients that leave out the Mcp-Name header, as FastMCP 4 does."
LenientHeaders = Annotated[bool, typer.Option("--lenient-headers", help=_LENIENT_HELP)]
Format = Annotated[LogFormat, typer.Option(help="How to log, on stderr.")]
Level = Annotated[str, typer.Option(help="Log this level and above: debug, info, warning or error.")]


def check_path(path: str) -> None:
    """Raises InvalidArgument if it is no path of an endpoint."""
    if not path.startswith("/"):
        raise InvalidArgument(f"The path must begin with a slash; write --path /{path}.")
