"""Finding a task by its id, or by the beginning of it, in what was handed in from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coatcheck.cli.destination import Destination, find
from coatcheck.cli.later import later
from coatcheck.cli.options import MODES
from coatcheck.errors import InvalidArgument

if TYPE_CHECKING:
    from coatcheck.client import ledger
    from coatcheck.client.ledger import Entry
else:
    ledger = later("coatcheck.client.ledger")

_SHORTEST, _SHORTEST_DASHED = 8, 21
"""What begins with a dash must be long to be told from options."""


@dataclass(frozen=True)
class Place:
    """A task, and where it is."""

    task_id: str
    destination: Destination
    mode: str = "auto"
    tool: str | None = None


def locate(name: str, target: str | None, mode: str = "auto") -> Place:
    """Return the task that is meant.

    Raises:
        InvalidArgument: None is known by that name, or several are.
    """
    name = name.strip()
    if target is not None:
        return Place(name, find(target), mode)
    with ledger.Ledger() as book:
        entry = book.find(name)
    if entry.task_id is None:
        raise InvalidArgument(f"Nobody knows whether {name} became a task; `coatcheck resume` finds out.")
    return place_of(entry, entry.task_id)


def place_of(entry: Entry, task_id: str) -> Place:
    mode = entry.protocol if entry.protocol in MODES else "auto"
    return Place(task_id, dict(entry.target), mode, entry.tool)


def entries() -> Sequence[Entry]:
    """Return all that was handed in from here and not collected, oldest first."""
    with ledger.Ledger() as book:
        return book.entries()


def short_names(ids: Sequence[str]) -> dict[str, str]:
    """Return for each id as much of its beginning as tells it from the others."""
    length = _SHORTEST_DASHED if any(each.startswith("-") for each in ids) else _SHORTEST
    while len({each[:length] for each in ids}) < len(set(ids)):
        length += 1
    return {each: each[:length] for each in ids}


def where(target: Mapping[str, Any]) -> str:
    """Return a target as one would write it."""
    if "url" in target:
        return str(target["url"])
    return " ".join([str(target.get("command", "")), *map(str, target.get("args", ()))])
