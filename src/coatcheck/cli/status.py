"""`coatcheck status`: how a task is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coatcheck.cli import options
from coatcheck.cli.exits import Exit
from coatcheck.cli.later import later
from coatcheck.cli.ledger import Place, locate
from coatcheck.cli.output import snapshot_json, snapshot_text, write, write_json
from coatcheck.cli.running import run

if TYPE_CHECKING:
    from coatcheck.cli import visit
else:
    visit = later("coatcheck.cli.visit")


def status(
    identifier: options.Identifier,
    target: options.OtherTarget = None,
    header: options.Headers = None,
    token: options.Token = None,
    mode: options.Mode = "auto",
    as_json: options.AsJSON = False,
) -> None:
    """Say how a task is doing, as its server sees it.

    Examples:

        coatcheck status 8AvoA3kG

        coatcheck status 8AvoA3kG --json | jq -r .status
    """
    place = locate(identifier, target, mode)
    run(_status(place, options.access(header, token, place.mode, is_polling=True), is_json=as_json), is_json=as_json)


async def _status(place: Place, access: options.Access, *, is_json: bool) -> int:
    async with visit.quick_visit(place.destination, access) as client:
        snapshot = await client.handle(place.task_id).status()
    if is_json:
        write_json(snapshot_json(snapshot, place.tool))
    else:
        write(snapshot_text(snapshot, place.tool))
    return Exit.OK
