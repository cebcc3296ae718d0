"""A call that takes too long for a client without tasks is answered with a ticket: when, and what is on it."""

from __future__ import annotations

import asyncio
from typing import Any

import jsonschema
import pytest
from mcp import Client
from pydantic import BaseModel

from coatcheck import Policy
from coatcheck.server import TaskContext, TaskPolicy, TaskServer
from tests.matrix.peers import PATIENCE
from tests.requirements.marks import requirement
from tests.taskless.tickets import PROMPTLY, a_bench, a_ticket, ticket
from tests.v2025.wire import NEW, PROGRESS, RELATED, Transport, served, text_of

pytestmark = pytest.mark.anyio


# When


@requirement("X-11", "R-08")
async def test_a_call_that_takes_too_long_is_answered_with_a_ticket(transport: Transport, version: str) -> None:
    bench = a_bench("wait", task=PROMPTLY)
    async with served(bench.server, transport) as place:
        caller = await place.connect(transport, version=version)
        result = await caller.use("wait")
        task = ticket(result)
        assert (task["tool"], task["status"]) == ("wait", "working")
        assert "questions" not in task
        assert "wait_task" in text_of(result)
        bench.go.set()
        waited = await caller.use("wait_task", task_id=task["taskId"])
        assert text_of(waited) == "waited"
        assert waited["_meta"][RELATED] == {"taskId": task["taskId"]}


@requirement("X-11")
def test_a_call_is_held_for_less_than_the_minute_after_which_hosts_give_up() -> None:
    assert TaskPolicy("optional").longest_hold == 45
    assert TaskPolicy("optional", promote_after=7).longest_hold == 7


@requirement("X-11", "R-08")
async def test_a_call_may_be_held_however_long_it_takes(version: str) -> None:
    bench = a_bench("wait", task=TaskPolicy(promote_after=None), heartbeat=0.01)
    async with served(bench.server) as place:
        caller = await place.memory(version)
        params = {"name": "wait", "arguments": {}, "_meta": {"progressToken": 1}}
        call = caller.begin("tools/call", params)
        for beats in range(1, 6):
            await caller.until(lambda _, beats=beats: len(caller.all_told(PROGRESS)) >= beats)
        assert not call.is_answered
        bench.go.set()
        assert text_of((await call.answer())["result"]) == "waited"


@requirement("R-08", "X-11")
async def test_a_tool_has_a_patience_of_its_own() -> None:
    bench = a_bench("add", task=TaskPolicy(promote_after=60))
    bench.server.add_tool(bench.wait, task=TaskPolicy("optional", promote_after=0.01))
    async with served(bench.server) as place:
        caller = await place.memory()
        ticket(await caller.use("wait"))
        assert text_of(await caller.use("add", a=1)) == "2"


@requirement("X-11", "R-09")
async def test_a_tool_that_must_be_a_task_may_fall_back_to_being_held(transport: Transport, version: str) -> None:
    bench = a_bench("add", task=PROMPTLY)
    fallback = TaskPolicy("required", fallback=True)
    bench.server.add_tool(bench.wait, task=fallback)
    bench.server.add_tool(bench.add, "add_too", task=TaskPolicy("required", fallback=True, promote_after=60))
    async with served(bench.server, transport) as place:
        caller = await place.connect(transport, version=version)
        assert text_of(await caller.use("add_too", a=1)) == "2"
        ticket(await caller.use("wait"))


@requirement("R-09", "F-005")
async def test_a_tool_that_must_be_a_task_is_refused_otherwise(version: str) -> None:
    bench = a_bench("task_only")
    async with served(bench.server) as place:
        caller = await place.memory(version)
        refused = await caller.refusal("tools/call", name="task_only", arguments={})
    assert refused["code"] == (-32021 if version == NEW else -32601)
    assert bench.runs == []


@requirement("X-11", "R-25")
async def test_when_the_server_stops_a_held_call_is_answered_with_a_ticket(version: str) -> None:
    bench = a_bench("wait")
    async with served(bench.server) as place:
        caller = await place.memory(version)
        call = caller.begin("tools/call", {"name": "wait", "arguments": {}})
        await asyncio.wait_for(bench.begun.wait(), PATIENCE)
        bench.server.tasks.end_streams()
        assert ticket((await call.answer())["result"])["status"] == "working"


@requirement("X-11", "E-048", "G-016")
async def test_who_has_too_many_tasks_is_served_without_one(version: str) -> None:
    bench = a_bench("wait", "add", "ask", max_unfinished=1, task=PROMPTLY)
    async with served(bench.server) as place:
        caller = await place.memory(version)
        task_id = await a_ticket(caller, "wait")
        assert text_of(await caller.use("add", a=1)) == "2"
        listed = await caller.use("list_tasks")
        assert [task["taskId"] for task in listed["structuredContent"]["tasks"]] == [task_id]


@requirement("X-11", "E-048")
async def test_who_has_too_many_tasks_is_asked_directly() -> None:
    bench = a_bench("wait", "ask", max_unfinished=1, task=PROMPTLY)
    async with served(bench.server) as place:
        caller = await place.memory()
        await a_ticket(caller, "wait")
        call = caller.begin("tools/call", {"name": "ask", "arguments": {}})
        await caller.reply(await caller.question(), {"action": "decline"})
        assert text_of((await call.answer())["result"]) == "decline"


# What is on it


@requirement("X-11", "X-12", "E-022")
async def test_a_ticket_says_how_far_the_work_is(version: str) -> None:
    bench = a_bench("add", task=PROMPTLY)

    @bench.server.tool(task=True)
    async def copy(task: TaskContext) -> None:
        await task.progress(2, 5, "Copying")
        await task.flush()
        bench.begun.set()
        await bench.go.wait()

    async with served(bench.server) as place:
        caller = await place.memory(version)
        task_id = await a_ticket(caller, "copy")
        await asyncio.wait_for(bench.begun.wait(), PATIENCE)
        result = await caller.use("get_task", task_id=task_id)
    assert ticket(result)["statusMessage"] == "Copying (2 of 5)"
    assert "Copying (2 of 5)" in text_of(result)


@requirement("X-12", "G-018")
async def test_a_ticket_for_good_does_not_expire() -> None:
    bench = a_bench("wait", policy=Policy(allows_unlimited_ttl=True), task=TaskPolicy(ttl=None, promote_after=0.01))
    async with served(bench.server) as place:
        result = await (await place.memory()).use("wait")
    assert result["structuredContent"]["task"]["expiresAt"] is None


# Schemas


class Point(BaseModel):
    x: int


class Line(BaseModel):
    points: list[Point]


class Tree(BaseModel):
    branches: list[Tree]


def drawing() -> tuple[TaskServer, asyncio.Event]:
    """Return a server whose slow tools promise structured results, and what lets them go on."""
    server = TaskServer("test", store="memory://", grace=0.01, task=PROMPTLY)
    go = asyncio.Event()

    @server.tool(task=True)
    async def number() -> int:
        await go.wait()
        return 7

    @server.tool(task=True)
    async def line() -> Line:
        await go.wait()
        return Line(points=[Point(x=1)])

    @server.tool(task=True)
    async def tree() -> Tree:
        await go.wait()
        return Tree(branches=[Tree(branches=[])])

    @server.tool()
    async def plain() -> Line:
        return Line(points=[])

    return server, go


@requirement("X-11", "X-12")
async def test_a_schema_allows_what_it_allowed_and_a_ticket(version: str) -> None:
    server, go = drawing()
    async with served(server) as place:
        caller = await place.memory(version)
        tools = await caller.tools()
        for name in ("number", "line", "tree"):
            schema = tools[name]["outputSchema"]
            assert (schema["type"], len(schema["anyOf"])) == ("object", 2)
            result = await caller.use(name)
            jsonschema.validate(result["structuredContent"], schema)
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({"neither": 1}, schema)
        go.set()
        for name in ("number", "line", "tree"):
            jsonschema.validate((await caller.use(name))["structuredContent"], tools[name]["outputSchema"])


@requirement("X-11")
async def test_the_schema_of_a_tool_that_is_never_a_task_is_left_alone(version: str) -> None:
    server, _ = drawing()
    async with served(server) as place:
        tools = await (await place.memory(version)).tools()
    assert tools["plain"]["outputSchema"] == {**Line.model_json_schema(), "title": "Line"}


@requirement("X-11")
async def test_a_tool_without_a_schema_gets_none() -> None:
    server = TaskServer("test", store="memory://")

    @server.tool(task=True, structured_output=False)
    async def free() -> str:
        return "free"

    async with served(server) as place:
        assert "outputSchema" not in (await (await place.memory()).tools())["free"]


@requirement("X-11", "X-12")
@pytest.mark.parametrize("mode", ["legacy", NEW])
@pytest.mark.parametrize("tool", ["number", "line", "tree"])
async def test_the_client_of_the_sdk_accepts_a_ticket_and_then_the_result(tool: str, mode: Any) -> None:
    server, go = drawing()
    async with Client(server, mode=mode) as client:
        await client.list_tools()
        given = await client.call_tool(tool, {})
        assert given.structured_content
        task_id = given.structured_content["task"]["taskId"]
        go.set()
        done = await client.call_tool("wait_task", {"task_id": task_id})
        expected: dict[str, Any] = {
            "number": {"result": 7},
            "line": {"points": [{"x": 1}]},
            "tree": {"branches": [{"branches": []}]},
        }
        assert done.structured_content == expected[tool]
