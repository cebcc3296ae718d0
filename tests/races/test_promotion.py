"""A result against the end of its caller's patience: the caller gets the result, or a task that has it."""

from __future__ import annotations

from random import Random

import pytest

from tests.races.conftest import Races
from tests.races.loop import rest, the_loop
from tests.races.served import Served, clear
from tests.races.stage import HELD, PROMOTED
from tests.races.wire import DUMB, NEWER, OLDER, PLAIN, Client, Json, Kind

pytestmark = pytest.mark.anyio

_HARDLY = 1e-7
"""A hundred turns of the loop."""
WITHOUT_TASKS = {"2025-06-18": DUMB, "2025-11-25": OLDER, "2026-07-28": PLAIN}


@pytest.mark.parametrize("kind", WITHOUT_TASKS.values(), ids=WITHOUT_TASKS)
async def test_a_held_call_ends_with_its_result_or_with_a_ticket_for_it(
    kind: Kind, served: Served, races: Races
) -> None:
    client = await served.client(kind)

    async def race(chance: Random) -> str:
        label, answer = await _finishing_at(PROMOTED, "promoted", served, client, chance)
        ticket = answer["structuredContent"].get("task")
        if ticket:
            answer = await client.call("wait_task", task_id=ticket["taskId"])
        else:
            assert await served.engine.list() == [], "nobody was told of it"
        _assert_done(served, label, answer)
        await clear(served.engine)
        return "ticket" if ticket else "result"

    await races(race, share=3)


async def test_a_call_held_for_long_leaves_its_task_whether_there_was_a_ticket_or_not(
    served: Served, races: Races
) -> None:
    client = await served.client(DUMB)

    async def race(chance: Random) -> str:
        label, answer = await _finishing_at(HELD, "work", served, client, chance)
        (row,) = await served.engine.list()
        ticket = answer["structuredContent"].get("task")
        assert ticket is None or ticket["taskId"] == row.id
        _assert_done(served, label, await client.call("wait_task", task_id=row.id))
        await clear(served.engine)
        return "ticket" if ticket else "result"

    await races(race, share=3)


async def test_a_call_that_may_be_promoted_ends_with_its_result_or_with_a_task_that_has_it(
    served: Served, races: Races
) -> None:
    newer = await served.client(NEWER)

    async def race(chance: Random) -> str:
        label, answer = await _finishing_at(PROMOTED, "promoted", served, newer, chance)
        kind = answer["resultType"]
        if kind == "task":
            answer = (await newer.of_task("get", answer["taskId"]))["result"]
        else:
            assert await served.engine.list() == [], "nobody was told of it"
        _assert_done(served, label, answer)
        await clear(served.engine)
        return kind

    await races(race)


async def _finishing_at(seconds: float, tool: str, served: Served, client: Client, chance: Random) -> tuple[str, Json]:
    """Call a tool that is done at that very moment, or hardly before or after; return what the call is answered."""
    label, loop = served.stage.label(), the_loop()
    when = loop.time() + seconds + chance.uniform(-_HARDLY, _HARDLY)
    loop.call_at(when, served.stage.say, label, "go")
    answer = await (await client.begin_call(tool, label=label)).result()
    assert loop.time() - when < 1
    await rest()
    return label, answer


def _assert_done(served: Served, label: str, answer: Json) -> None:
    assert answer["content"] == [{"type": "text", "text": f"{label} is done"}]
    assert served.stage.runs[label] == 1
