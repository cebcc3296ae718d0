"""promote_after: a direct answer if the tool is quick, a task if it is not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from coatcheck.server import TaskPolicy, TaskServer
from tests.requirements.marks import requirement
from tests.server.conftest import Connect
from tests.server.wire import PATIENCE, in_memory, over_http

pytestmark = pytest.mark.anyio

PATIENT = TaskPolicy("optional", promote_after=20)
IMPATIENT = TaskPolicy("optional", promote_after=0.02)


class Name(BaseModel):
    name: str


@requirement("R-08", "T-05", "S-011")
async def test_quick_work_is_answered_directly(server: TaskServer, connect: Connect) -> None:
    @server.tool(task=PATIENT)
    async def add(a: int) -> dict[str, int]:
        return {"sum": a + 1}

    async with connect(server) as caller:
        answer = await caller.call("add", a=1)
    assert (answer["resultType"], answer["structuredContent"]) == ("complete", {"sum": 2})
    assert "taskId" not in answer


@requirement("T-05")
async def test_a_direct_answer_is_that_of_a_plain_call(server: TaskServer) -> None:
    @server.tool(task=PATIENT)
    async def add(a: int) -> dict[str, int]:
        return {"sum": a + 1}

    @server.tool(task=PATIENT)
    async def fail() -> None:
        raise ToolError("no luck")

    async with over_http(server) as caller:
        other = caller.again(capabilities={})
        assert await caller.call("add", a=1) == await other.call("add", a=1)
        assert await caller.call("fail") == await other.call("fail")


async def test_a_direct_answer_leaves_no_task_behind(server: TaskServer) -> None:
    @server.tool(task=PATIENT)
    async def add(a: int) -> int:
        return a + 1

    async with in_memory(server) as caller:
        await caller.call("add", a=1)
        assert await server.tasks.running.engine.list() == []


@requirement("R-08")
async def test_slow_work_is_answered_with_a_task_that_runs_on(server: TaskServer, connect: Connect) -> None:
    go_on = asyncio.Event()

    @server.tool(task=IMPATIENT)
    async def slow() -> str:
        await go_on.wait()
        return "done"

    async with connect(server) as caller:
        created = await caller.call("slow")
        assert (created["resultType"], created["status"]) == ("task", "working")
        go_on.set()
        done = await caller.finished(created["taskId"])
    assert done["result"]["content"] == [{"type": "text", "text": "done"}]


@requirement("S-019", "S-011", "S-017")
async def test_work_that_asks_is_answered_with_a_task_at_once(server: TaskServer, connect: Connect) -> None:
    @server.tool(task=PATIENT)
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Name)
        return answer.data.name if answer.action == "accept" else answer.action

    async with connect(server) as caller:
        created = await caller.call("ask")
        assert (created["resultType"], created["status"]) == ("task", "input_required")
        assert "inputRequests" not in created
        (key,) = (await caller.get(created["taskId"]))["inputRequests"]
        await caller.update(created["taskId"], {key: {"action": "accept", "content": {"name": "Ann"}}})
        done = await caller.finished(created["taskId"])
    assert done["result"]["content"][0]["text"] == "Ann"


@requirement("R-02")
async def test_a_quick_protocol_error_is_the_answer(server: TaskServer, connect: Connect) -> None:
    @server.tool(task=PATIENT)
    async def refuse() -> None:
        raise MCPError(-32050, "not today", {"retry": 5})

    async with connect(server) as caller:
        with pytest.raises(MCPError) as refused:
            await caller.call("refuse")
    error = refused.value.error
    assert (error.code, error.message, error.data) == (-32050, "not today", {"retry": 5})


async def test_a_protocol_error_without_data_is_answered_without_data(server: TaskServer) -> None:
    @server.tool(task=PATIENT)
    async def refuse() -> None:
        raise MCPError(-32050, "not today")

    async with over_http(server) as caller:
        body = caller.message("tools/call", {"name": "refuse", "arguments": {}})
        assert (await caller.post(body)).message()["error"] == {"code": -32050, "message": "not today"}


async def test_a_client_without_tasks_waits_for_slow_work(server: TaskServer) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @server.tool(task=IMPATIENT)
    async def slow() -> str:
        started.set()
        await go_on.wait()
        return "done"

    async with over_http(server, capabilities={}) as caller:
        call = asyncio.create_task(caller.call("slow"))
        await started.wait()
        go_on.set()
        assert (await call)["content"][0]["text"] == "done"


async def test_work_of_a_client_that_hangs_up_before_it_knows_an_id_is_stopped(server: TaskServer) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @server.tool(task=PATIENT)
    async def slow() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with over_http(server) as caller:
        body: dict[str, Any] = caller.message("tools/call", {"name": "slow", "arguments": {}})
        async with caller.open(body):
            await started.wait()
        async with asyncio.timeout(PATIENCE):
            await stopped.wait()
        (task,) = await server.tasks.running.engine.list()
    assert task.status == "cancelled"
