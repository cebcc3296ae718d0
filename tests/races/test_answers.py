"""An answer against everything else that may end a question: one of them wins, and nobody is left waiting."""

from __future__ import annotations

from random import Random

import pytest
from mcp.shared.exceptions import MCPError

from tests.races.conftest import Races
from tests.races.loop import rest
from tests.races.served import Served, at_once, say
from tests.races.wire import DUMB, KEEPER, NEWER, OLD, OLDER, Client, Json, accepted

pytestmark = pytest.mark.anyio


async def test_of_answers_over_three_ways_and_a_tool_that_gives_up_one_wins(served: Served, races: Races) -> None:
    older, newer, dumb = [await served.client(kind) for kind in (OLDER, NEWER, DUMB)]
    stage = served.stage

    async def race(chance: Random) -> str:
        label = stage.label()
        task_id = await older.hand_in("ask", label=label)
        waiting = await older.begin("tasks/result", {"taskId": task_id})
        await rest()
        (question,), (key,) = older.open_questions, await _open(newer, task_id)
        *_, answered, _ = await at_once(
            chance,
            question.answer("Ann"),
            newer.of_task("update", task_id, inputResponses={key: accepted("Bob")}),
            dumb.call("answer_task", task_id=task_id, content={"name": "Cem"}),
            say(served.stage, label, "enough"),
        )
        result = (await waiting.result())["content"][0]["text"]
        assert stage.outcomes[label] == [result]
        assert result in ("Ann", "Bob", "Cem", "gave up")
        assert result != "Cem" or not answered.get("isError")
        await rest()
        assert older.open_questions == []
        assert question.is_withdrawn or question.answered_with
        return result

    await races(race, share=3)


async def test_an_answer_against_a_cancel_leaves_one_end_and_no_open_question(served: Served, races: Races) -> None:
    older, newer = [await served.client(kind) for kind in (OLDER, NEWER)]
    stage = served.stage

    async def race(chance: Random) -> str:
        label = stage.label()
        task_id = await newer.hand_in("ask", label=label)
        waiting = await older.begin("tasks/result", {"taskId": task_id})
        await rest()
        (question,) = older.open_questions
        canceller = chance.choice((older, newer))
        _, cancelled = await at_once(chance, question.answer("Ann"), canceller.of_task("cancel", task_id))
        end = (await newer.of_task("get", task_id))["status"]
        answer = await waiting.answer()
        if end == "cancelled":
            assert answer["error"]["code"] == -32602
            assert not isinstance(cancelled, MCPError)
        else:
            assert end == "completed"
            assert answer["result"]["content"][0]["text"] == "Ann"
            assert canceller is newer or isinstance(cancelled, MCPError)
            assert stage.outcomes[label] == ["Ann"]
        await rest()
        assert older.open_questions == []
        return end

    await races(race, share=3)


async def test_a_held_call_whose_caller_is_asked_ends_with_its_answer_or_without_the_question(
    served: Served, races: Races
) -> None:
    old, newer = [await served.client(kind) for kind in (OLD, NEWER)]
    stage = served.stage

    async def race(chance: Random) -> str:
        label = stage.label()
        held = await old.begin_call("ask", label=label)
        await rest()
        (question,) = old.open_questions
        (row,) = await served.engine.list()
        (key,) = row.input_requests
        await at_once(
            chance,
            question.answer("Ann"),
            newer.of_task("update", row.id, inputResponses={key: accepted("Bob")}),
            say(served.stage, label, "enough"),
        )
        result = await held.result()
        assert [result["content"][0]["text"]] == stage.outcomes[label], "no ticket: its caller could be asked"
        await rest()
        assert old.open_questions == []
        assert await served.engine.list() == [], "it was quick, so nobody else was told of it"
        return result["content"][0]["text"]

    await races(race, share=3)


async def test_who_was_asked_and_has_answered_gets_the_result_and_no_ticket(served: Served, races: Races) -> None:
    old, stage = await served.client(OLD), served.stage

    async def race(chance: Random) -> None:
        label = stage.label()
        held = await old.begin_call("ask", label=label)
        await rest()
        (question,) = old.open_questions
        await at_once(chance, question.answer("Ann"), say(served.stage, label, "note"))
        assert (await held.result())["content"][0]["text"] == "Ann"
        assert stage.outcomes[label] == ["Ann"]

    await races(race, share=3)


async def test_who_keeps_a_question_as_a_task_and_ignores_its_withdrawal_is_answered(served: Served) -> None:
    keeper, newer = [await served.client(kind) for kind in (KEEPER, NEWER)]
    task_id = await newer.hand_in("ask", label=served.stage.label())
    waiting = await keeper.begin("tasks/result", {"taskId": task_id})
    await rest()
    (question,) = keeper.open_questions
    now = "2026-01-01T00:00:00Z"
    kept: Json = {"taskId": "mine", "status": "working", "createdAt": now, "lastUpdatedAt": now, "ttl": None}
    await question.reply({"task": kept})
    await rest()
    assert [asked.method for asked in keeper.open_questions] == ["tasks/get"]
    await newer.of_task("cancel", task_id)
    assert (await waiting.answer())["error"]["code"] == -32602


async def _open(client: Client, task_id: str) -> Json:
    return (await client.of_task("get", task_id))["inputRequests"]
