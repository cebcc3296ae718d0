"""`coatcheck wait`: a task that was handed in earlier, waited for now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coatcheck.cli import options
from coatcheck.cli.display import shown
from coatcheck.cli.durations import seconds
from coatcheck.cli.exits import Exit
from coatcheck.cli.later import later
from coatcheck.cli.ledger import Place, locate
from coatcheck.cli.output import write_result
from coatcheck.cli.running import run
from coatcheck.cli.terminal import open_terminal

if TYPE_CHECKING:
    from coatcheck.cli import visit
else:
    visit = later("coatcheck.cli.visit")


def wait(
    identifier: options.Identifier,
    timeout: options.Timeout = None,
    target: options.OtherTarget = None,
    header: options.Headers = None,
    token: options.Token = None,
    mode: options.Mode = "auto",
    poll: options.Poll = False,
    as_json: options.AsJSON = False,
    quiet: options.Quiet = False,
) -> None:
    """Wait for a task and print its result.

    It is looked up among the tasks that were handed in from here. What it asks is asked here.

    Examples:

        coatcheck wait 8AvoA3kG

        coatcheck wait 8AvoA3kG --timeout 10m --json

        coatcheck wait 8AvoA3kG-GbPSeS0aH_gqfnY9Fdk4hEM_7Yp --target http://127.0.0.1:8000/mcp
    """
    place = locate(identifier, target, mode)
    access = options.access(header, token, place.mode, poll)
    run(_wait(place, access, seconds(timeout), is_json=as_json, is_quiet=quiet or as_json), is_json=as_json)


async def _wait(place: Place, access: options.Access, timeout: float | None, *, is_json: bool, is_quiet: bool) -> int:
    with open_terminal() as terminal:
        async with (
            shown(terminal.console, is_quiet=is_quiet) as display,
            visit.visit(place.destination, access, terminal, display) as here,
        ):
            handle = here.client.handle(place.task_id)
            tool = place.tool or "task"
            result = await here.watch.minding(here.watch.result(handle, tool), [handle], timeout)
            with display.paused():
                write_result(result, place.task_id, place.tool, is_json=is_json)
    return Exit.OK
