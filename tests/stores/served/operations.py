"""Everything a store is asked to do, once each: as calls to be counted, and as promises to be kept whatever breaks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from coatcheck.lifecycle import Recorded, advance
from coatcheck.store import EVERYONE, Query, Store
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.stores.served.helpers import CLAIMED, DONE, ids, keep, soon

Operation = Callable[[Store], Awaitable[object]]

HELD = advance(a_task("kept"), CLAIMED, NOW)
ENTRIES = (an_entry(), an_entry(2))
NOTED = advance(HELD, Recorded(1, ENTRIES), NOW)
KEYED = a_task("new", idempotency_key="k")


async def prepare(store: Store) -> None:
    """Keep what the operations are about."""
    await keep(store, a_task("kept"), CLAIMED)


# Calls

OPERATIONS: dict[str, Operation] = {
    "insert": lambda store: store.insert(a_task("new"), quota=10),
    "insert under a key": lambda store: store.insert(KEYED, quota=10),
    "insert claimed": lambda store: store.insert(replace(HELD, id="new"), quota=10),
    "get": lambda store: store.get("kept"),
    "get by its owner": lambda store: store.get("kept", owner="ann", alive_at=NOW),
    "get of another": lambda store: store.get("kept", owner="bob", alive_at=NOW, newer_than=9, timeout=60),
    "get what is new": lambda store: store.get("kept", newer_than=1, timeout=60),
    "replace": lambda store: store.replace(advance(HELD, DONE, NOW)),
    "replace with entries": lambda store: store.replace(NOTED, ENTRIES),
    "delete": lambda store: store.delete(HELD),
    "list": lambda store: store.list(Query(owner="ann")),
    "list after": lambda store: store.list(Query(owner=EVERYONE, after=(NOW, "gone"))),
    "list held": lambda store: store.list(Query(owner=EVERYONE, is_held=True)),
    "journal": lambda store: store.journal("kept"),
    "waiting": lambda store: store.waiting({"slow", "other"}, limit=10, timeout=60),
    "overdue": lambda store: store.overdue(NOW, limit=10),
}


# Promises


async def is_inserted(store: Store) -> None:
    assert await soon(store.insert(a_task("new"), quota=2)) == a_task("new")
    assert await store.get("new") == a_task("new")
    assert ids(await store.waiting({"slow"}, limit=10, timeout=0)) == ["new"]


async def is_inserted_under_a_key(store: Store) -> None:
    assert await soon(store.insert(KEYED, quota=2)) == KEYED
    assert await store.insert(a_task("newer", idempotency_key="k")) == KEYED


async def is_replaced(store: Store) -> None:
    assert await soon(store.replace(NOTED, ENTRIES)) is True
    assert await store.get("kept") == NOTED
    assert tuple(await store.journal("kept")) == ENTRIES
    assert not await store.replace(NOTED, ENTRIES), "what comes later is not taken for the same"


async def is_deleted(store: Store) -> None:
    assert await soon(store.delete(HELD)) is True
    assert await store.get("kept") is None
    assert not await store.delete(HELD)


async def is_read(store: Store) -> None:
    assert await soon(store.get("kept")) == HELD


async def is_listed(store: Store) -> None:
    assert await soon(store.list(Query(owner=EVERYONE))) == [HELD]


PROMISES: tuple[Operation, ...] = (is_inserted, is_inserted_under_a_key, is_replaced, is_deleted, is_read, is_listed)
