"""Clients of 2026-07-28 without tasks, asked in rounds of their call: answers, other answers, and callers that go."""

from __future__ import annotations

from random import Random

import pytest
from mcp.shared.exceptions import MCPError

from tests.races.conftest import Races
from tests.races.loop import rest
from tests.races.served import Deserter, Served, at_once, clear, say
from tests.races.wire import DUMB, NEWER, PLAIN, Json, accepted

pytestmark = pytest.mark.anyio


async def test_a_round_against_other_answers_ends_with_the_one_that_was_taken(served: Served, races: Races) -> None:
    plain, newer = [await served.client(kind) for kind in (PLAIN, NEWER)]
    stage = served.stage

    async def race(chance: Random) -> str:
        label = stage.label()
        asked = await plain.call("ask", label=label)
        assert asked["resultType"] == "input_required"
        (key,) = asked["inputRequests"]
        (row,) = await served.engine.list()
        answer: Json = {"inputResponses": {key: accepted("Ann")}, "requestState": asked["requestState"]}
        ended, _, _ = await at_once(
            chance,
            plain.request("tools/call", {"name": "ask", "arguments": {"label": label}, **answer}),
            newer.of_task("update", row.id, inputResponses={key: accepted("Bob")}),
            say(stage, label, "enough"),
        )
        assert not isinstance(ended, MCPError), ended
        assert [ended["content"][0]["text"]] == stage.outcomes[label]
        await rest()
        assert await served.engine.list() == [], "it was quick, and everyone has their answer"
        return stage.outcomes[label][0]

    await races(race, share=4)


async def test_a_caller_that_goes_before_its_round_leaves_no_question_in_place_of_a_result(
    served: Served, races: Races
) -> None:
    dumb = await served.client(DUMB)

    async def race(chance: Random) -> None:
        label, deserter = served.stage.label(), Deserter(served, PLAIN)
        await deserter.call("in_rounds", label)
        await deserter.desert(chance)
        for task in (await dumb.call("list_tasks"))["structuredContent"]["tasks"]:
            seen = await dumb.call("get_task", task_id=task["taskId"])
            assert seen["structuredContent"]["task"]["status"] == "input_required", seen
        await clear(served.engine)

    await races(race, share=4)
