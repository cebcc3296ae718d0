"""Input: what a task asks, how it is answered, and what is ignored or refused."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from coatcheck import Policy
from coatcheck.server import TaskContext, TaskPolicy, TaskServer
from tests.requirements.marks import requirement
from tests.server.conftest import Connect
from tests.server.wire import PATIENCE, in_memory, over_http

pytestmark = pytest.mark.anyio

ACCEPT = {"action": "accept", "content": {"name": "Ann"}}
DECLINE = {"action": "decline"}


class Name(BaseModel):
    name: str


@pytest.fixture
def server(server: TaskServer) -> TaskServer:
    @server.tool(task=True)
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Name)
        return answer.data.name if answer.action == "accept" else answer.action

    @server.tool(task=True)
    async def ask_both(ctx: Context) -> str:
        both = await asyncio.gather(ctx.elicit("First?", Name), ctx.elicit("Second?", Name))
        return " and ".join(answer.data.name if answer.action == "accept" else answer.action for answer in both)

    @server.tool(task=True)
    async def ask_again(ctx: Context) -> str:
        said = [(await ctx.elicit("Who?", Name)).action for _ in range(3)]
        return ", ".join(said)

    return server


def _key(task: dict[str, Any], message: str) -> str:
    (key,) = [key for key, request in task["inputRequests"].items() if request["params"]["message"] == message]
    return key


@requirement("S-028", "S-036", "S-044", "R-20", "C-012", "S-032", "ER-2")
async def test_a_question_is_asked_in_a_poll_and_answered_with_an_update(server: TaskServer, connect: Connect) -> None:
    async with connect(server) as caller:
        task_id = await caller.hand_in("ask")
        asked = await caller.asked(task_id)
        assert (asked["status"], asked["resultType"]) == ("input_required", "complete")
        ((key, request),) = asked["inputRequests"].items()
        assert request["method"] == "elicitation/create"
        assert (request["params"]["mode"], request["params"]["message"]) == ("form", "Who?")
        assert request["params"]["requestedSchema"]["required"] == ["name"]
        acknowledged = await caller.update(task_id, {key: ACCEPT})
        done = await caller.finished(task_id)
    assert {name for name in acknowledged if name != "_meta"} == {"resultType"}
    assert acknowledged["resultType"] == "complete"
    assert done["result"]["content"][0]["text"] == "Ann"


@requirement("S-015", "S-028", "C-014")
async def test_a_question_is_a_method_and_its_params_only(server: TaskServer, connect: Connect) -> None:
    async with connect(server) as caller:
        asked = await caller.asked(await caller.hand_in("ask"))
    (request,) = asked["inputRequests"].values()
    assert set(request) == {"method", "params"}
    assert not {"requestState", "result", "error"} & set(asked)


@requirement("S-038")
async def test_an_open_question_stands_in_every_poll(server: TaskServer, connect: Connect) -> None:
    async with connect(server) as caller:
        task_id = await caller.hand_in("ask")
        first = await caller.asked(task_id)
        assert await caller.get(task_id) == first


@requirement("S-028", "T-01")
async def test_all_open_questions_are_asked_together(server: TaskServer, connect: Connect) -> None:
    async with connect(server) as caller:
        asked = await caller.asked(await caller.hand_in("ask_both"), questions=2)
    assert {request["params"]["message"] for request in asked["inputRequests"].values()} == {"First?", "Second?"}


@requirement("S-043", "C-013", "T-01")
async def test_some_answers_leave_the_other_questions_open(server: TaskServer, connect: Connect) -> None:
    async with connect(server) as caller:
        task_id = await caller.hand_in("ask_both")
        asked = await caller.asked(task_id, questions=2)
        second = _key(asked, "Second?")
        await caller.update(task_id, {second: DECLINE})
        left = await caller.get(task_id)
        assert (left["status"], set(left["inputRequests"])) == ("input_required", {_key(asked, "First?")})
        await caller.update(task_id, {_key(asked, "First?"): ACCEPT})
        done = await caller.finished(task_id)
    assert done["result"]["content"][0]["text"] == "Ann and decline"


@requirement("S-043")
async def test_all_answers_may_come_in_one_update(server: TaskServer) -> None:
    async with in_memory(server) as caller:
        task_id = await caller.hand_in("ask_both")
        asked = await caller.asked(task_id, questions=2)
        await caller.update(task_id, dict.fromkeys(asked["inputRequests"], ACCEPT))
        assert (await caller.finished(task_id))["result"]["content"][0]["text"] == "Ann and Ann"


@requirement("S-037")
async def test_the_same_question_asked_again_has_a_key_of_its_own(server: TaskServer) -> None:
    keys: list[str] = []
    async with in_memory(server) as caller:
        task_id = await caller.hand_in("ask_again")
        for _ in range(3):
            (key,) = (await caller.asked(task_id))["inputRequests"]
            keys.append(key)
            await caller.update(task_id, {key: DECLINE})
        done = await caller.finished(task_id)
    assert len(set(keys)) == 3
    assert done["result"]["content"][0]["text"] == "decline, decline, decline"


# What is ignored


@requirement("S-040", "S-044")
@pytest.mark.parametrize("answers", [{}, {"never": ACCEPT}, {"never": None, "": 1}])
async def test_answers_to_what_was_never_asked_are_acknowledged_and_ignored(
    server: TaskServer, connect: Connect, answers: dict[str, Any]
) -> None:
    async with connect(server) as caller:
        task_id = await caller.hand_in("ask")
        before = await caller.asked(task_id)
        assert (await caller.update(task_id, answers))["resultType"] == "complete"
        assert await caller.get(task_id) == before


@requirement("S-041")
async def test_a_second_answer_to_a_question_is_ignored(server: TaskServer, connect: Connect) -> None:
    async with connect(server) as caller:
        task_id = await caller.hand_in("ask_both")
        asked = await caller.asked(task_id, questions=2)
        first, second = _key(asked, "First?"), _key(asked, "Second?")
        await caller.update(task_id, {first: ACCEPT})
        await caller.update(task_id, {first: DECLINE})
        await caller.update(task_id, {first: {"action": "no such thing"}, second: DECLINE})
        done = await caller.finished(task_id)
    assert done["result"]["content"][0]["text"] == "Ann and decline"


@requirement("S-041", "S-044")
async def test_an_answer_that_comes_after_the_end_is_acknowledged_and_ignored(
    server: TaskServer, connect: Connect
) -> None:
    async with connect(server) as caller:
        task_id = await caller.hand_in("ask")
        (key,) = (await caller.asked(task_id))["inputRequests"]
        await caller.update(task_id, {key: ACCEPT})
        done = await caller.finished(task_id)
        assert (await caller.update(task_id, {key: DECLINE}))["resultType"] == "complete"
        assert await caller.get(task_id) == done


@requirement("S-042")
async def test_an_answer_to_a_question_the_tool_gave_up_on_is_ignored(server: TaskServer) -> None:
    withdrawn = asyncio.Event()

    @server.tool(task=True)
    async def impatient(ctx: Context) -> str:
        first = asyncio.create_task(ctx.elicit("First?", Name))
        await asked.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        withdrawn.set()
        return (await ctx.elicit("Second?", Name)).action

    asked = asyncio.Event()
    async with in_memory(server) as caller:
        task_id = await caller.hand_in("impatient")
        (old,) = (await caller.asked(task_id))["inputRequests"]
        asked.set()
        await withdrawn.wait()
        (new,) = (await caller.asked(task_id))["inputRequests"]
        await caller.update(task_id, {old: ACCEPT})
        assert set((await caller.get(task_id))["inputRequests"]) == {new}
        assert new != old


# What is refused


@requirement("ER-4", "T-02")
@pytest.mark.parametrize(
    "answer",
    [
        {"action": "accept"},
        {"action": "accept", "content": {}},
        {"action": "accept", "content": {"input": "Luca"}},
        {"action": "accept", "content": {"name": 7}},
        {"action": "perhaps"},
        {"content": {"name": "Ann"}},
        {},
        None,
        "Ann",
        ["accept"],
    ],
    ids=str,
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    server: TaskServer, connect: Connect, answer: Any
) -> None:
    async with connect(server) as caller:
        task_id = await caller.hand_in("ask")
        before = await caller.asked(task_id)
        (key,) = before["inputRequests"]
        with pytest.raises(MCPError) as refused:
            await caller.update(task_id, {key: answer})
        assert refused.value.code == -32602
        assert key in refused.value.message
        assert await caller.get(task_id) == before
        await caller.update(task_id, {key: ACCEPT})
        assert (await caller.finished(task_id))["status"] == "completed"


@requirement("ER-4")
async def test_one_answer_that_does_not_fit_takes_none_of_the_others(server: TaskServer) -> None:
    async with in_memory(server) as caller:
        task_id = await caller.hand_in("ask_both")
        before = await caller.asked(task_id, questions=2)
        good, bad = before["inputRequests"]
        with pytest.raises(MCPError):
            await caller.update(task_id, {good: ACCEPT, bad: {}})
        assert await caller.get(task_id) == before


@requirement("S-036")
@pytest.mark.parametrize(
    "params",
    [{}, {"inputResponses": None}, {"inputResponses": []}, {"inputResponses": "x"}, {"input_responses": {}}],
    ids=str,
)
async def test_an_update_without_answers_is_refused(server: TaskServer, params: dict[str, Any]) -> None:
    async with over_http(server) as caller:
        task_id = await caller.hand_in("ask")
        with pytest.raises(MCPError) as refused:
            await caller.request("tasks/update", {"taskId": task_id, **params})
    assert refused.value.code == -32602


# How long a question may stay open


@requirement("S-035", "R-12")
async def test_a_task_that_waits_for_a_person_lives_longer_and_says_so(server: TaskServer) -> None:
    @server.tool(task=TaskPolicy("optional", ttl=30))
    async def ask_slowly(ctx: Context) -> str:
        return (await ctx.elicit("Who?", Name)).action

    async with in_memory(server) as caller:
        created = await caller.call("ask_slowly")
        assert created["ttlMs"] == 30_000
        assert (await caller.asked(created["taskId"]))["ttlMs"] > 6 * 86_400_000


@requirement("R-20", "S-037")
async def test_a_tool_that_is_run_again_gets_the_answers_it_had_and_asks_the_rest() -> None:
    server = TaskServer("test", store="memory://", policy=Policy(park_after=timedelta(milliseconds=1)))
    runs: list[None] = []
    parked = asyncio.Event()

    @server.tool(task=TaskPolicy("optional", resumable=True))
    async def ask_much(ctx: Context) -> str:
        runs.append(None)
        try:
            return " ".join([(await ctx.elicit(message, Name)).action for message in ("A?", "B?", "A?")])
        finally:
            parked.set()

    keys: list[str] = []
    async with in_memory(server) as caller:
        task_id = await caller.hand_in("ask_much")
        for action in ("decline", "cancel", "decline"):
            (key,) = (await caller.asked(task_id))["inputRequests"]
            async with asyncio.timeout(PATIENCE):
                await parked.wait()
            parked.clear()
            keys.append(key)
            await caller.update(task_id, {key: {"action": action}})
        done = await caller.finished(task_id)
    assert done["result"]["content"][0]["text"] == "decline cancel decline"
    assert (len(set(keys)), len(runs)) == (3, 4)


@requirement("R-20")
async def test_a_tool_may_ask_through_its_task_as_well(server: TaskServer, connect: Connect) -> None:
    @server.tool(task=True)
    async def name_it(task: TaskContext) -> str:
        answer = await task.elicit("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return answer["content"]["name"]

    async with connect(server) as caller:
        task_id = await caller.hand_in("name_it")
        ((key, request),) = (await caller.asked(task_id))["inputRequests"].items()
        assert request["params"]["message"] == "Name?"
        await caller.update(task_id, {key: ACCEPT})
        assert (await caller.finished(task_id))["result"]["content"][0]["text"] == "Ann"
