"""`coatcheck cancel`: a task that nobody wants any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coatcheck.cli import options
from coatcheck.cli.exits import Exit
from coatcheck.cli.later import later
from coatcheck.cli.ledger import Place, locate
from coatcheck.cli.output import snapshot_json, write, write_json
from coatcheck.cli.running import run

if TYPE_CHECKING:
    from coatcheck.cli import visit
else:
    visit = later("coatcheck.cli.visit")


def cancel(
    identifier: options.Identifier,
    target: options.OtherTarget = None,
    header: options.Headers = None,
    token: options.Token = None,
    mode: options.Mode = "auto",
    as_json: options.AsJSON = False,
) -> None:
    """Cancel a task. One that has ended stays as it is.

    Examples:

        coatcheck cancel 8AvoA3kG
    """
    place = locate(identifier, target, mode)
    run(_cancel(place, options.access(header, token, place.mode, is_polling=True), is_json=as_json), is_json=as_json)


async def _cancel(place: Place, access: options.Access, *, is_json: bool) -> int:
    async with visit.quick_visit(place.destination, access) as client:
        snapshot = await client.handle(place.task_id).cancel()
    if is_json:
        write_json(snapshot_json(snapshot, place.tool))
    else:
        write(snapshot.status.value)
    return Exit.OK
