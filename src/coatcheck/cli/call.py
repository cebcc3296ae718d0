"""`coatcheck call`: a tool, called from the command line, and waited for."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coatcheck.cli import options
from coatcheck.cli.arguments import read_arguments
from coatcheck.cli.destination import Destination, find
from coatcheck.cli.display import shown
from coatcheck.cli.durations import seconds
from coatcheck.cli.exits import Exit
from coatcheck.cli.later import later
from coatcheck.cli.output import write, write_json, write_result
from coatcheck.cli.running import run
from coatcheck.cli.terminal import open_terminal
from coatcheck.errors import InvalidArgument, UnknownTool

if TYPE_CHECKING:
    from coatcheck.cli import visit
    from coatcheck.cli.visit import Visit
    from coatcheck.client import Client, TaskHandle
    from coatcheck.client.results import ToolResult
    from coatcheck.client.tools import ToolInfo
else:
    visit = later("coatcheck.cli.visit")

Tool = Annotated[str, typer.Argument(metavar="TOOL", help="The tool's name; `coatcheck tools TARGET` lists them.")]
TTL = Annotated[str | None, typer.Option("--ttl", help="How long the server should keep the task, as `2h`.")]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Hand it in, print the task's id, and do not wait.")]
NoLedger = Annotated[bool, typer.Option("--no-ledger", help="Do not write down that it was handed in.")]


@dataclass(frozen=True)
class Order:
    """What is to be called, and how."""

    target: str
    destination: Destination
    access: options.Access
    tool: str
    pairs: list[str]
    file: str | None
    ttl: float | None
    timeout: float | None
    is_detached: bool
    is_json: bool
    is_quiet: bool


def call(
    target: options.Target,
    tool: Tool,
    arguments: options.Arguments = None,
    input_file: options.Input = None,
    detach: Detach = False,
    timeout: options.Timeout = None,
    ttl: TTL = None,
    header: options.Headers = None,
    token: options.Token = None,
    mode: options.Mode = "auto",
    poll: options.Poll = False,
    no_ledger: NoLedger = False,
    as_json: options.AsJSON = False,
    quiet: options.Quiet = False,
) -> None:
    """Call a tool and wait for its result, however long it takes.

    Arguments are typed by the tool's own schema: numbers, yes/no, lists and objects in JSON. `key.sub=value` reaches
    into an object, `key=a key=b` makes a list, `key:=JSON` is taken as it stands. What the tool asks is asked here.
    Ctrl-C lets you leave it running, cancel it, or go on.

    Examples:

        coatcheck call http://127.0.0.1:8000/mcp report pages=5

        coatcheck call "python server.py" report pages=5 tags=a tags=b options.loud=yes

        coatcheck call books report --input arguments.json --json | jq .result

        coatcheck call books report pages=500 --detach
    """
    order = Order(
        target,
        find(target),
        options.access(header, token, mode, poll, not no_ledger),
        tool,
        arguments or [],
        input_file,
        seconds(ttl),
        seconds(timeout),
        detach,
        as_json,
        quiet or as_json,
    )
    run(_call(order), is_json=as_json)


async def _call(order: Order) -> int:
    with open_terminal(stdin_is_taken=order.file == "-") as terminal:
        async with shown(terminal.console, is_quiet=order.is_quiet or order.is_detached) as display:
            connecting = display.add("connecting")
            async with visit.visit(order.destination, order.access, terminal, display, _come_back(order)) as here:
                info = await _find_tool(here.client, order.tool)
                arguments = read_arguments(order.pairs, order.file, info.input_schema, order.tool)
                is_task = here.client.has_tasks and info.task_support != "forbidden"
                if order.is_detached and not is_task:
                    raise InvalidArgument(f"{order.tool} does not run as a task; call it without --detach.")
                display.remove(connecting)
                tasks: list[TaskHandle[ToolResult]] = []
                work = _carry_out(order, here, arguments, tasks, may_be_task=is_task)
                await here.watch.minding(work, tasks, order.timeout)
    return Exit.OK


async def _carry_out(
    order: Order, here: Visit, arguments: dict[str, Any], tasks: list[TaskHandle[ToolResult]], *, may_be_task: bool
) -> None:
    """Hand the call in and print its outcome; `tasks` gets the task, once there is one."""
    if may_be_task:
        here.watch.last_word = "Nobody knows yet whether it was handed in; find out with: coatcheck resume"
    handle = await here.client.start(order.tool, arguments, ttl=order.ttl)
    is_task = handle.is_task and not handle.snapshot.is_terminal
    if is_task:
        tasks.append(handle)
    if order.is_detached and is_task:
        await _detach(handle, order)
        return
    result = await here.watch.result(handle, order.tool, is_task=is_task)
    with here.display.paused():
        write_result(result, handle.id if is_task else None, order.tool, is_json=order.is_json)


async def _find_tool(client: Client, name: str) -> ToolInfo:
    tools = {tool.name: tool for tool in await client.tools()}
    if name not in tools:
        raise UnknownTool(name, list(tools))
    return tools[name]


async def _detach(handle: TaskHandle[ToolResult], order: Order) -> None:
    await handle.detach()
    if order.is_json:
        write_json({"id": handle.id, "tool": order.tool, "status": handle.snapshot.status.value})
    else:
        write(handle.id)


def _come_back(order: Order) -> str:
    """Return what `coatcheck wait ID` lacks to find a task that is not in the ledger."""
    return "" if order.access.has_ledger else f" --target {shlex.quote(order.target)}"
