"""A server that stops, at any point of what its clients wait for: everyone is answered, and nothing is left behind."""

from __future__ import annotations

from random import Random

import pytest

from coatcheck import Status
from tests.races.conftest import Races
from tests.races.loop import rest, turns
from tests.races.served import Served, at_once, leaving_nothing, say, serving
from tests.races.stage import Stage, build
from tests.races.stores import Lots
from tests.races.wire import DUMB, NEWER, OLD, OLDER, Json

pytestmark = pytest.mark.anyio

INTERNAL_ERROR = -32603


async def test_who_waits_for_a_result_is_told_to_ask_again(lots: Lots, races: Races) -> None:
    stage = Stage()
    server = build(stage)

    async def race(chance: Random) -> str:
        async with leaving_nothing(), serving(lots, stage, server) as served:
            older = await served.client(OLDER)
            label, asking = stage.label(), stage.label()
            task_id = await older.hand_in("work", label=label)
            other_id = await older.hand_in("ask", label=asking)
            answers = at_once(
                chance,
                _stop(served, chance),
                say(stage, label, "go", chance),
                (await older.begin("tasks/result", {"taskId": task_id})).answer(),
                (await older.begin("tasks/result", {"taskId": other_id})).answer(),
                older.hand_in("work", label=stage.label()),
            )
            _, _, waited, asked, _ = await answers
            await rest()
            assert older.open_questions == []
            _assert_to_be_asked_again(asked)
            assert (await served.engine.get(other_id)).status is Status.INPUT_REQUIRED
            if "result" in waited:
                return "result"
            _assert_to_be_asked_again(waited)
            return "told to ask again"

    await races(race, share=6)


async def test_who_is_held_gets_a_ticket_or_the_result(lots: Lots, races: Races) -> None:
    stage = Stage()
    server = build(stage)

    async def race(chance: Random) -> str:
        async with leaving_nothing(), serving(lots, stage, server) as served:
            dumb, old = [await served.client(kind) for kind in (DUMB, OLD)]
            label, asking = stage.label(), stage.label()
            _, _, held, asked = await at_once(
                chance,
                _stop(served, chance),
                say(stage, label, "go", chance),
                dumb.call("work", label=label),
                old.call("ask", label=asking),
            )
            await rest()
            assert old.open_questions == []
            assert (await served.engine.get(_ticket(asked)["taskId"])).status is Status.INPUT_REQUIRED
            if ticket := held["structuredContent"].get("task"):
                held = await dumb.call("get_task", task_id=ticket["taskId"])
            assert held["content"] == [{"type": "text", "text": f"{label} is done"}]
            assert stage.runs[label] == stage.runs[asking] == 1
            return "ticket" if ticket else "result"

    await races(race, share=6)


async def test_who_waits_with_the_ticket_tools_or_for_a_promotion_is_answered(lots: Lots, races: Races) -> None:
    stage = Stage()
    server = build(stage)

    async def race(chance: Random) -> None:
        async with leaving_nothing(), serving(lots, stage, server) as served:
            dumb, newer = [await served.client(kind) for kind in (DUMB, NEWER)]
            task_id = await newer.hand_in("work", label=stage.label())
            _, ticket, promoted = await at_once(
                chance,
                _stop(served, chance),
                dumb.call("wait_task", task_id=task_id, seconds=50),
                newer.call("promoted", label=stage.label()),
            )
            assert _ticket(ticket)["taskId"] == task_id
            assert promoted["resultType"] == "task"

    await races(race, share=6)


async def _stop(served: Served, chance: Random) -> None:
    await turns(chance, 80)
    served.server.tasks.end_streams()


def _ticket(answer: Json) -> Json:
    return answer["structuredContent"]["task"]


def _assert_to_be_asked_again(answer: Json) -> None:
    assert answer["error"]["code"] == INTERNAL_ERROR
    assert "again" in answer["error"]["message"]
