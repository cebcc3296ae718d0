"""How tasks are doing, asked of all their servers at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from coatcheck.cli.ledger import where
from coatcheck.cli.narrowing import Asked
from coatcheck.cli.options import MODES, Access
from coatcheck.cli.visit import quick_visit
from coatcheck.client import Client
from coatcheck.client.ledger import Entry
from coatcheck.errors import CoatcheckError, TaskLost

_LONGEST_SECONDS = 15.0


@dataclass(frozen=True)
class Look:
    """What a server says of a task, or what keeps it from saying anything."""

    status: str
    message: str = ""


async def look_at(asked: Asked, access: Access) -> dict[str, Look]:
    """Return how tasks are doing, by the keys of their entries."""
    known = [entry for entry in asked.entries if entry.task_id]
    places = groupby(sorted(known, key=_place), key=_place)
    looks = await asyncio.gather(*(_look_at_server(list(there), asked, access) for _, there in places))
    return {key: look for each in looks for key, look in each.items()}


async def _look_at_server(entries: Sequence[Entry], asked: Asked, access: Access) -> dict[str, Look]:
    protocol = entries[0].protocol
    access = replace(access, mode=protocol if protocol in MODES else "auto")
    destination = asked.destination_of(entries[0].target)
    try:
        async with asyncio.timeout(_LONGEST_SECONDS), quick_visit(destination, access) as client:
            looks = await asyncio.gather(*(_look(client, entry) for entry in entries))
            return {entry.key: look for entry, look in zip(entries, looks, strict=True)}
    except (CoatcheckError, TimeoutError) as error:
        return {entry.key: Look("unreachable", str(error) or "it does not answer") for entry in entries}


async def _look(client: Client, entry: Entry) -> Look:
    try:
        snapshot = await client.handle(entry.task_id or "").status()
    except TaskLost:
        return Look("lost", "the server does not know it any more")
    return Look(snapshot.status.value, snapshot.message or "")


def _place(entry: Entry) -> tuple[str, str]:
    return where(entry.target), entry.protocol or ""
