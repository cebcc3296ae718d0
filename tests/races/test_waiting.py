"""Waiting against completing: whoever waits for a task hears of its end, however narrow the gap it falls into."""

from __future__ import annotations

from random import Random

import pytest

from tests.races.conftest import Races, on_every_shared_store
from tests.races.loop import the_loop
from tests.races.served import Served, at_once, say
from tests.races.wire import DUMB, NEWER, OLDER, RELATED

pytestmark = pytest.mark.anyio

TASKS = 10
"""How many are under way at once, where each write takes its time on a disk."""


async def test_who_asks_for_the_result_at_the_very_moment_of_completion_gets_it(served: Served, races: Races) -> None:
    older, newer, dumb = [await served.client(kind) for kind in (OLDER, NEWER, DUMB)]

    async def race(chance: Random) -> None:
        label = served.stage.label()
        task_id = await chance.choice((older, newer)).hand_in("work", label=label)
        began = the_loop().time()
        _, *answers = await at_once(
            chance,
            say(served.stage, label, "go"),
            older.of_task("result", task_id),
            older.of_task("result", task_id),
            dumb.call("wait_task", task_id=task_id, seconds=15),
        )
        assert the_loop().time() - began < 1, "it was found by looking, not by being told"
        for answer in answers:
            assert answer["content"] == [{"type": "text", "text": f"{label} is done"}]
            assert answer["_meta"][RELATED] == {"taskId": task_id}

    await races(race)


@on_every_shared_store
async def test_who_asks_for_the_result_while_another_process_completes_gets_it(served: Served, races: Races) -> None:
    clients = [await served.client(OLDER) for _ in range(2)]

    async def one_of_many(chance: Random) -> None:
        label = served.stage.label()
        task_id = await chance.choice(clients).hand_in("work", label=label)
        if chance.random() < 0.5:
            await served.stage.hears(label, "begun")
        _, *answers = await at_once(
            chance,
            say(served.stage, label, "go"),
            *(client.of_task("result", task_id) for client in clients),
        )
        for answer in answers:
            assert answer["content"] == [{"type": "text", "text": f"{label} is done"}]

    async def race(chance: Random) -> None:
        failures = await at_once(chance, *(one_of_many(chance) for _ in range(TASKS)))
        assert failures == [None] * TASKS

    await races(race)
