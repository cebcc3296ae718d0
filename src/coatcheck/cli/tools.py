"""`coatcheck tools`: what a server offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from coatcheck.cli import options
from coatcheck.cli.arguments import describe
from coatcheck.cli.destination import Destination, find
from coatcheck.cli.display import shown
from coatcheck.cli.exits import Exit
from coatcheck.cli.later import later
from coatcheck.cli.output import stdout, write_json
from coatcheck.cli.plain import plain
from coatcheck.cli.running import run
from coatcheck.cli.terminal import open_terminal

if TYPE_CHECKING:
    from coatcheck.cli import visit
    from coatcheck.client import ToolInfo
else:
    visit = later("coatcheck.cli.visit")

_WORDS = {"required": "always a task", "optional": "a task", "forbidden": "no task", "unknown": "perhaps a task"}


def tools(
    target: options.Target,
    header: options.Headers = None,
    token: options.Token = None,
    mode: options.Mode = "auto",
    as_json: options.AsJSON = False,
) -> None:
    """List the tools of a server: whether they run as tasks, what they do, and what they take.

    Examples:

        coatcheck tools http://127.0.0.1:8000/mcp

        coatcheck tools "python server.py" --json | jq -r .name
    """
    access = options.access(header, token, mode, is_polling=True, has_ledger=False)
    run(_tools(find(target), access, is_json=as_json), is_json=as_json)


async def _tools(destination: Destination, access: options.Access, *, is_json: bool) -> int:
    with open_terminal(may_ask=False) as terminal:
        async with (
            shown(terminal.console, is_quiet=True) as display,
            visit.visit(destination, access, terminal, display) as here,
        ):
            found = await here.client.tools()
    console = stdout()
    for tool in found:
        if is_json:
            write_json(_json(tool))
        else:
            _print(tool, console)
    return Exit.OK


def _print(tool: ToolInfo, console: Console) -> None:
    console.print(Text.assemble((plain(tool.name), "bold"), "  ", (_WORDS[tool.task_support], "dim")))
    for text, style in ((tool.description or "", ""), (describe(tool.input_schema), "cyan")):
        if text:
            console.print(Padding(Text(plain(text), style=style), (0, 0, 0, 4), expand=False))


def _json(tool: ToolInfo) -> dict[str, object]:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "task_support": tool.task_support,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
    }
