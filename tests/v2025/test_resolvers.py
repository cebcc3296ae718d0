"""`Resolve(...)` parameters: their questions are asked once, in the task, on the request that waits for it."""

from __future__ import annotations

from typing import Annotated, Any

import mcp_types as types
import pytest
from mcp.server.mcpserver import Elicit, Resolve, Sample

from coatcheck.server import TaskServer
from tests.requirements.marks import requirement
from tests.v2025.bench import DECLINE, SAID, Name
from tests.v2025.wire import NEW, WITH_TASKS, Talk, Transport, meta_of, related, served, text_of

pytestmark = pytest.mark.anyio


def who() -> Elicit[Name]:
    return Elicit("Who?", Name)


def really(user: Annotated[Name, Resolve(who)]) -> Elicit[Name]:
    return Elicit(f"Really {user.name}?", Name)


def think() -> Sample:
    return Sample([types.SamplingMessage(role="user", content=types.TextContent(text="Why?"))], max_tokens=3)


@pytest.fixture
def server() -> TaskServer:
    server = TaskServer("test", store="memory://", grace=0.01, fallback_tools=False)

    @server.tool(task=True)
    async def greet(greeting: str, user: Annotated[Name, Resolve(who)]) -> str:
        return f"{greeting}, {user.name}!"

    @server.tool(task="required")
    async def greet_twice(user: Annotated[Name, Resolve(really)], first: Annotated[Name, Resolve(who)]) -> str:
        return f"{first.name}, I mean {user.name}"

    @server.tool(task=True)
    async def wonder(said: Annotated[types.CreateMessageResult, Resolve(think)]) -> str:
        return said.model

    return server


def accept(name: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": name}}


def questions(caller: Talk) -> list[str]:
    return [heard.params["message"] for heard in caller.heard if "id" in heard.message]


@requirement("E-024", "R-20", "F-057")
async def test_what_a_parameter_asks_is_asked_once_in_the_task(server: TaskServer, transport: Transport) -> None:
    async with served(server, transport) as place:
        caller = await place.connect(transport)
        task_id = await caller.hand_in("greet", greeting="Hello")
        assert questions(caller) == [], "there is nobody to ask before somebody waits"
        collecting = caller.collecting(task_id)
        question = await caller.question()
        assert question.params["_meta"] == meta_of(question, task_id)
        await caller.reply(question, accept("Ann"))
        assert text_of((await collecting.answer())["result"]) == "Hello, Ann!"
        assert questions(caller) == ["Who?"]


@requirement("E-024", "R-20")
async def test_parameters_that_ask_for_each_other_ask_in_turn(server: TaskServer) -> None:
    async with served(server) as place:
        caller = await place.memory()
        collecting = caller.collecting(await caller.hand_in("greet_twice"))
        await caller.reply(await caller.question(), accept("Ann"))
        await caller.reply(await caller.question(), accept("Bea"))
        assert text_of((await collecting.answer())["result"]) == "Ann, I mean Bea"
        assert questions(caller) == ["Who?", "Really Ann?"]


@requirement("E-025")
async def test_a_parameter_may_ask_the_model(server: TaskServer) -> None:
    async with served(server) as place:
        caller = await place.memory()
        collecting = caller.collecting(await caller.hand_in("wonder"))
        await caller.reply(await caller.question("sampling/createMessage"), SAID)
        assert text_of((await collecting.answer())["result"]) == "m"


@requirement("E-027", "R-03")
async def test_a_parameter_that_is_declined_fails_the_task_as_it_would_fail_the_call(server: TaskServer) -> None:
    async with served(server) as place:
        caller = await place.memory()
        caller.answers["elicitation/create"] = DECLINE
        task_id = await caller.hand_in("greet", greeting="Hello")
        collected = await caller.request("tasks/result", {"taskId": task_id})
        plain = await caller.request("tools/call", {"name": "greet", "arguments": {"greeting": "Hello"}})
        assert collected["result"].pop("_meta") == related(task_id)
        assert collected == plain
        assert (await caller.get(task_id))["status"] == "failed"


@requirement("F-057", "F-061")
async def test_arguments_are_judged_before_anything_is_asked(server: TaskServer) -> None:
    async with served(server) as place:
        caller = await place.memory()
        refused = await caller.refusal("tools/call", name="greet", arguments={}, task={})
        assert refused["code"] == -32602
        assert caller.heard == []
        assert await caller.ask("tasks/list") == {"tasks": []}


@requirement("X-01", "R-20")
async def test_what_a_parameter_asks_may_be_answered_over_the_newer_generation(server: TaskServer) -> None:
    async with served(server) as place:
        caller, newer = await place.memory(), await place.memory(NEW, WITH_TASKS)
        task_id = await caller.hand_in("greet", greeting="Hello")
        await caller.told(task_id, "input_required")
        (key,) = (await newer.get(task_id))["inputRequests"]
        await newer.ask("tasks/update", taskId=task_id, inputResponses={key: accept("Ann")})
        assert text_of(await caller.collect(task_id)) == "Hello, Ann!"
