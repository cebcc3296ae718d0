"""A caller that goes, at any point of a call that is held for it: the work goes on, once, and its result can be had."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from coatcheck import Status
from tests.races.conftest import Races
from tests.races.loop import rest
from tests.races.served import Deserter, Served, at_once, clear, say
from tests.races.wire import DUMB, NEWER, OLDER, PLAIN, Kind

pytestmark = pytest.mark.anyio

NOT_QUICK = 6.0
"""Seconds after which a result is kept even if its caller is still there."""


KINDS = pytest.mark.parametrize("kind", [DUMB, OLDER, PLAIN], ids=["2025-06-18", "2025-11-25", "2026-07-28"])


@KINDS
async def test_work_whose_caller_has_gone_goes_on_and_its_result_can_be_had(
    kind: Kind, served: Served, races: Races
) -> None:
    other, stage = await served.client(kind), served.stage

    async def race(chance: Random) -> None:
        label, deserter = stage.label(), Deserter(served, kind)
        await deserter.call("work", label)
        await deserter.desert(chance)
        stage.say(label, "go")
        await rest()
        listed = (await other.call("list_tasks"))["structuredContent"]["tasks"]
        assert [task["status"] for task in listed] == ["completed"] * stage.runs[label]
        for task in listed:
            result = await other.call("get_task", task_id=task["taskId"])
            assert result["content"] == [{"type": "text", "text": f"{label} is done"}]
        assert stage.runs[label] <= 1
        await clear(served.engine)

    await races(race, share=3)


async def test_work_whose_caller_goes_in_the_moment_it_is_done_keeps_its_result(served: Served, races: Races) -> None:
    other, stage = await served.client(DUMB), served.stage

    async def race(chance: Random) -> None:
        label, deserter = stage.label(), Deserter(served, DUMB)
        await deserter.call("work", label)
        await asyncio.sleep(NOT_QUICK)
        await at_once(chance, say(stage, label, "go", chance), deserter.desert(chance))
        (task,) = (await other.call("list_tasks"))["structuredContent"]["tasks"]
        result = await other.call("get_task", task_id=task["taskId"])
        assert result["content"] == [{"type": "text", "text": f"{label} is done"}]
        assert stage.runs[label] == 1
        await clear(served.engine)

    await races(race, share=2)


@KINDS
async def test_work_that_is_to_end_with_its_caller_does(kind: Kind, served: Served, races: Races) -> None:
    await _assert_ended_with_its_caller("given_up", kind, served, races)


async def test_work_whose_caller_goes_before_it_knows_of_a_task_ends(served: Served, races: Races) -> None:
    await _assert_ended_with_its_caller("promoted", NEWER, served, races)


async def _assert_ended_with_its_caller(tool: str, kind: Kind, served: Served, races: Races) -> None:
    stage = served.stage

    async def race(chance: Random) -> None:
        label, deserter = stage.label(), Deserter(served, kind)
        await deserter.call(tool, label)
        await deserter.desert(chance)
        rows = await served.engine.list()
        assert [row.status for row in rows] == [Status.CANCELLED] * stage.runs[label]
        await clear(served.engine)

    await races(race, share=3)


async def test_of_ending_with_its_caller_and_completing_one_wins(served: Served, races: Races) -> None:
    stage = served.stage

    async def race(chance: Random) -> str:
        label, deserter = stage.label(), Deserter(served, DUMB)
        await deserter.call("given_up", label)
        await asyncio.sleep(NOT_QUICK)
        await at_once(chance, say(stage, label, "go", chance), deserter.desert(chance))
        (row,) = await served.engine.list()
        assert row.status in (Status.COMPLETED, Status.CANCELLED)
        await clear(served.engine)
        return row.status

    await races(race, share=2)
