"""Resolve(...) parameters: what is asked before there is a task is settled by multi-round-trip, and asked once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import mcp_types as types
import pytest
from mcp.server.mcpserver import Context, Elicit, ListRoots, Resolve, Sample
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from coatcheck.server import TaskServer
from tests.requirements.marks import requirement
from tests.server.conftest import Connect
from tests.server.wire import TASKS, Caller, in_memory, over_http

pytestmark = pytest.mark.anyio


class Name(BaseModel):
    name: str


asked: list[str] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    asked.clear()


def who() -> Elicit[Name]:
    asked.append("who")
    return Elicit("Who?", Name)


def really(user: Annotated[Name, Resolve(who)]) -> Elicit[Name]:
    asked.append("really")
    return Elicit(f"Really {user.name}?", Name)


def double(number: int) -> int:
    return 2 * number


def think() -> Sample:
    question = types.TextContent(type="text", text="Why?")
    return Sample([types.SamplingMessage(role="user", content=question)], max_tokens=3)


def roots() -> ListRoots:
    return ListRoots()


@pytest.fixture
def server(server: TaskServer) -> TaskServer:
    @server.tool(task="required")
    async def greet(greeting: str, user: Annotated[Name, Resolve(who)]) -> str:
        return f"{greeting}, {user.name}!"

    @server.tool(task=True)
    async def greet_twice(user: Annotated[Name, Resolve(really)], first: Annotated[Name, Resolve(who)]) -> str:
        return f"{first.name}, I mean {user.name}"

    return server


async def _rounds(
    caller: Caller, tool: str, arguments: dict[str, Any], answers: dict[str, Any]
) -> list[dict[str, Any]]:
    """Call a tool and answer what it asks by its message, until it says something else. Return all that was said."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    said = [await caller.request("tools/call", params)]
    while said[-1]["resultType"] == "input_required":
        given = {key: answers[one["params"]["message"]] for key, one in said[-1]["inputRequests"].items()}
        state = {"requestState": said[-1]["requestState"]} if "requestState" in said[-1] else {}
        said.append(await caller.request("tools/call", {**params, "inputResponses": given, **state}))
        assert len(said) < 10
    return said


def _accept(name: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": name}}


@requirement("S-020", "C-023", "S-011")
async def test_a_question_comes_before_the_task(server: TaskServer, connect: Connect) -> None:
    async with connect(server) as caller:
        first, second = await _rounds(caller, "greet", {"greeting": "Hello"}, {"Who?": _accept("Ann")})
        assert "taskId" not in first
        assert second["resultType"] == "task"
        done = await caller.finished(second["taskId"])
    assert done["result"]["content"][0]["text"] == "Hello, Ann!"


@requirement("S-020")
async def test_nobody_is_asked_again_once_there_is_a_task(server: TaskServer, connect: Connect) -> None:
    async with connect(server) as caller:
        *_, created = await _rounds(caller, "greet", {"greeting": "Hello"}, {"Who?": _accept("Ann")})
        engine = caller.tasks.running.engine
        task = await engine.finished(await engine.get(created["taskId"]), 10)
    assert task.input_responses == {}
    assert task.status == "completed"


@requirement("S-020", "C-023")
async def test_questions_that_depend_on_each_other_are_settled_one_after_the_other(
    server: TaskServer, connect: Connect
) -> None:
    answers = {"Who?": _accept("Ann"), "Really Ann?": _accept("Anna")}
    async with connect(server) as caller:
        said = await _rounds(caller, "greet_twice", {}, answers)
        done = await caller.finished(said[-1]["taskId"])
    assert [one["resultType"] for one in said] == ["input_required", "input_required", "task"]
    assert done["result"]["content"][0]["text"] == "Ann, I mean Anna"
    assert "inputRequests" not in done


async def test_no_task_is_made_while_questions_are_open(server: TaskServer) -> None:
    async with in_memory(server) as caller:
        await caller.call("greet", greeting="Hello")
        assert await server.tasks.running.engine.list() == []


async def test_a_person_who_declines_makes_no_task(server: TaskServer) -> None:
    async with in_memory(server) as caller:
        said = await _rounds(caller, "greet", {"greeting": "Hello"}, {"Who?": {"action": "decline"}})
        assert (said[-1]["resultType"], said[-1]["isError"]) == ("complete", True)
        assert await server.tasks.running.engine.list() == []


async def test_a_client_that_cannot_be_asked_is_refused_before_there_is_a_task(server: TaskServer) -> None:
    async with over_http(server, capabilities=TASKS) as caller:
        with pytest.raises(MCPError) as refused:
            await caller.call("greet", greeting="Hello")
        assert refused.value.code == -32021
        assert await server.tasks.running.engine.list() == []


@requirement("S-009", "S-020")
async def test_a_client_without_tasks_is_refused_before_anybody_is_asked(server: TaskServer) -> None:
    async with over_http(server, capabilities={"elicitation": {}}) as caller:
        with pytest.raises(MCPError) as refused:
            await caller.call("greet", greeting="Hello")
    assert refused.value.code == -32021
    assert asked == []


async def test_a_resolver_that_asks_nothing_is_run_and_makes_a_task_at_once(server: TaskServer) -> None:
    @server.tool(task=True)
    async def show(number: int, doubled: Annotated[int, Resolve(double)]) -> str:
        return f"{number} {doubled}"

    async with in_memory(server) as caller:
        assert (await caller.result("show", number=4))["content"][0]["text"] == "4 8"


@requirement("R-20", "S-020")
async def test_models_and_roots_are_asked_before_the_task_too(server: TaskServer, connect: Connect) -> None:
    @server.tool(task=True)
    async def both(
        thought: Annotated[types.CreateMessageResult, Resolve(think)],
        found: Annotated[types.ListRootsResult, Resolve(roots)],
    ) -> str:
        assert isinstance(thought.content, types.TextContent)
        return f"{thought.content.text} {len(found.roots)}"

    replies: dict[str, Any] = {
        "sampling/createMessage": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "So"}},
        "roots/list": {"roots": []},
    }
    async with connect(server) as caller:
        params: dict[str, Any] = {"name": "both", "arguments": {}}
        said = await caller.request("tools/call", params)
        while said["resultType"] == "input_required":
            given = {key: replies[one["method"]] for key, one in said["inputRequests"].items()}
            state = {"requestState": said["requestState"]} if "requestState" in said else {}
            said = await caller.request("tools/call", {**params, "inputResponses": given, **state})
        done = await caller.finished(said["taskId"])
    assert done["result"]["content"][0]["text"] == "So 0"
    assert "requestState" not in done


async def test_a_tool_may_ask_before_and_during_its_task(server: TaskServer) -> None:
    @server.tool(task=True)
    async def chat(user: Annotated[Name, Resolve(who)], ctx: Context) -> str:
        again = await ctx.elicit("And?", Name)
        return f"{user.name} {again.action}"

    async with in_memory(server) as caller:
        *_, created = await _rounds(caller, "chat", {}, {"Who?": _accept("Ann")})
        ((key, request),) = (await caller.asked(created["taskId"]))["inputRequests"].items()
        assert request["params"]["message"] == "And?"
        await caller.update(created["taskId"], {key: {"action": "decline"}})
        assert (await caller.finished(created["taskId"]))["result"]["content"][0]["text"] == "Ann decline"


@requirement("S-020")
async def test_the_second_round_may_reach_another_process_that_has_the_same_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COATCHECK_STATE_KEY", "k" * 40)

    def build() -> TaskServer:
        server = TaskServer("test", store=f"sqlite:///{tmp_path}/tasks.db")

        @server.tool(task=True)
        async def greet_twice(user: Annotated[Name, Resolve(really)]) -> str:
            return f"Hello, {user.name}!"

        return server

    params: dict[str, Any] = {"name": "greet_twice", "arguments": {}}
    answers = {"Who?": _accept("Ann"), "Really Ann?": _accept("Anna")}
    async with over_http(build()) as one, over_http(build()) as other:
        said = await one.request("tools/call", params)
        for caller in (other, one):
            given = {key: answers[question["params"]["message"]] for key, question in said["inputRequests"].items()}
            carried = {"inputResponses": given, "requestState": said["requestState"]}
            said = await caller.request("tools/call", {**params, **carried})
        done = await one.finished(said["taskId"])
    assert done["result"]["content"][0]["text"] == "Hello, Anna!"
