"""One operation is one command, whatever Redis does to carry it out."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from coatcheck import open_store
from coatcheck.lifecycle import Recorded, advance
from coatcheck.store import EVERYONE, Query, Store
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.databases.fixtures import new_url, the_redis
from tests.stores.redis.helpers import CLAIMED, DONE, commands_of_clients, keep

pytestmark = pytest.mark.anyio

HELD = advance(a_task("held"), CLAIMED, NOW)
NOTED = advance(HELD, Recorded(1, (an_entry(), an_entry(2))), NOW)

OPERATIONS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "insert": lambda store: store.insert(a_task("new"), quota=10),
    "insert under a key": lambda store: store.insert(a_task("new", idempotency_key="k"), quota=10),
    "insert claimed": lambda store: store.insert(msgspec.structs.replace(HELD, id="new"), quota=10),
    "get": lambda store: store.get("held"),
    "get what is new": lambda store: store.get("held", newer_than=1, timeout=60),
    "replace": lambda store: store.replace(advance(HELD, DONE, NOW)),
    "replace with entries": lambda store: store.replace(NOTED, (an_entry(), an_entry(2))),
    "delete": lambda store: store.delete(HELD),
    "list": lambda store: store.list(Query(owner="ann")),
    "list after": lambda store: store.list(Query(owner=EVERYONE, after=(NOW, "gone"))),
    "list held": lambda store: store.list(Query(owner=EVERYONE, is_held=True)),
    "journal": lambda store: store.journal("held"),
    "waiting": lambda store: store.waiting({"slow", "other"}, limit=10, timeout=60),
    "overdue": lambda store: store.overdue(NOW, limit=10),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
async def test_an_operation_is_one_command(operation: Callable[[Store], Awaitable[object]], tmp_path: Path) -> None:
    async with open_store(new_url("redis", tmp_path)) as store:
        await keep(store, a_task("held"), CLAIMED)
        await store.insert(a_task("waiting"))
        await store.get("held", newer_than=9, timeout=0.001)  # so that it listens already
        with commands_of_clients(the_redis().address) as commands:
            await operation(store)
    assert len(commands) == 1, commands
