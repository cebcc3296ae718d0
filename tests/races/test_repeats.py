"""A call that is repeated under its key while it is taken up, runs and ends: whatever comes first, it is run once."""

from __future__ import annotations

from random import Random

import pytest

from coatcheck import Status
from tests.races.conftest import Races, on_every_store
from tests.races.loop import rest
from tests.races.served import Served, at_once, clear, say
from tests.races.wire import NEWER, OLDER, Client, Json
from tests.server.wire import IDEMPOTENCY_KEY

pytestmark = [
    pytest.mark.anyio,
]


async def _hand_in(client: Client, label: str) -> str:
    """Call under the label as the key, and return the id of the task."""
    wish: Json = {} if client.kind.is_modern else {"task": {}}
    params = {"name": "work", "arguments": {"label": label}, "_meta": {IDEMPOTENCY_KEY: label}, **wish}
    created = await client.request("tools/call", params)
    return (created if client.kind.is_modern else created["task"])["taskId"]


async def _assert_run_once(served: Served, label: str, *ids: str) -> None:
    assert len(set(ids)) == 1
    task = await served.engine.finished(await served.engine.get(ids[0]), 60)
    await rest()
    assert task.status is Status.COMPLETED
    assert served.stage.runs[label] == 1
    await clear(served.engine)


@on_every_store
async def test_repeats_are_run_once(served: Served, races: Races) -> None:
    clients = [await served.client(kind) for kind in (NEWER, OLDER, NEWER)]

    async def race(chance: Random) -> None:
        label = served.stage.label()
        repeats = [_hand_in(client, label) for client in clients]
        *ids, _ = await at_once(chance, *repeats, say(served.stage, label, "go", chance))
        await _assert_run_once(served, label, *ids)

    await races(race)


@on_every_store
async def test_a_repeat_of_what_waits_for_a_worker_is_run_once(served: Served, races: Races) -> None:
    clients = [await served.client(kind) for kind in (NEWER, OLDER)]

    async def race(chance: Random) -> None:
        label = served.stage.label()
        first = await served.engine.submit("work", {"label": label}, idempotency_key=label)
        repeats = [_hand_in(client, label) for client in clients]
        *ids, _ = await at_once(chance, *repeats, say(served.stage, label, "go", chance))
        await _assert_run_once(served, label, first.id, *ids)

    await races(race)
