"""Handles: what is asked for is a task, what is returned is what the call would have returned."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult

from coatcheck import AlreadyFinished, Engine, InvalidArgument, Status, ToolFailed
from coatcheck.errors import TaskCancelled
from coatcheck.server import LocalTask, SyncContext, TaskContext, TaskMeta, TaskPolicy, Tasks, TaskServer
from tests.local.stage import PATIENCE, TASK, asked, text_of, until
from tests.requirements.marks import requirement

pytestmark = pytest.mark.anyio


@pytest.fixture
def gate() -> asyncio.Event:
    """What the tool `hold` waits for."""
    return asyncio.Event()


@pytest.fixture(autouse=True)
def tools(server: TaskServer, gate: asyncio.Event) -> None:
    @server.tool(task=True)
    async def add(a: int, b: int = 1) -> int:
        return a + b

    @server.tool(task=True)
    async def hold(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "holding")
        await gate.wait()
        return "held"


@requirement("E-010", "R-30", "M-004", "M-014")
@pytest.mark.parametrize("mode", [None, True, "required"])
async def test_without_task_meta_a_call_runs_here_and_now_and_leaves_no_task(server: TaskServer, mode: Any) -> None:
    ran: list[threading.Thread] = []

    @server.tool(task=mode)
    async def note() -> str:
        ran.append(threading.current_thread())
        return "noted"

    async with server.started():
        result = await server.call_tool("note")
        assert isinstance(result, CallToolResult)
        assert text_of(result) == "noted"
        assert ran == [threading.current_thread()]
        assert await server.tasks.running.engine.list_all() == []


async def test_without_task_meta_the_server_need_not_run(server: TaskServer) -> None:
    result = await server.call_tool("add", {"a": 1})
    assert isinstance(result, CallToolResult)
    assert result.structured_content == {"result": 2}


@requirement("E-011", "M-001", "M-005", "M-015")
async def test_with_task_meta_a_handle_is_returned_before_the_work_is_done(
    server: TaskServer, gate: asyncio.Event
) -> None:
    async with server.started():
        task = await server.call_tool("hold", task_meta=TASK)
        assert isinstance(task, LocalTask)
        assert (task.latest.status, task.latest.call.tool, task.latest.owner) == (Status.WORKING, "hold", None)
        assert (await server.tasks.running.engine.get(task.id)).id == task.id
        assert repr(task) == "<LocalTask of hold: working>"
        gate.set()
        assert text_of(await task) == "held"


@requirement("E-014")
async def test_the_result_is_what_the_call_itself_returns(server: TaskServer) -> None:
    async with server.started():
        called = await server.call_tool("add", {"a": 1, "b": 2})
        task = await server.call_tool("add", {"a": 1, "b": 2}, task_meta=TASK)
        assert await task.result() == await task.result() == await task == called


@requirement("E-014")
async def test_a_result_keeps_its_meta(server: TaskServer) -> None:
    @server.tool(task=True)
    async def label() -> CallToolResult:
        return CallToolResult(content=[], structured_content={"a": [1, None]}, _meta={"example.com/seen": True})

    async with server.started():
        result = await (await server.call_tool("label", task_meta=TASK))
        assert (result.meta, result.structured_content) == ({"example.com/seen": True}, {"a": [1, None]})


@requirement("E-012")
async def test_a_handle_fetches_the_task_as_it_is_now(server: TaskServer, gate: asyncio.Event) -> None:
    async with server.started():
        task = await server.call_tool("hold", task_meta=TASK)
        now = await until(task, lambda now: now.progress is not None)
        assert now == task.latest == await task.fetch()
        assert (now.status_message, now.progress and now.progress.done) == ("holding", 1.0)
        gate.set()
        assert (await task.wait()).status is Status.COMPLETED
        assert await task.fetch() == task.latest


async def test_changed_returns_once_something_else_can_be_seen(server: TaskServer, gate: asyncio.Event) -> None:
    async with server.started():
        task = await server.call_tool("hold", task_meta=TASK)
        seen = await until(task, lambda now: now.progress is not None)
        assert await task.changed(0.001) == seen
        gate.set()
        assert (await task.changed(PATIENCE)).status is Status.COMPLETED


@requirement("E-013")
async def test_waiting_no_longer_cancels_nothing(server: TaskServer, gate: asyncio.Event) -> None:
    async with server.started():
        task = await server.call_tool("hold", task_meta=TASK)
        assert (await task.wait(0.001)).status is Status.WORKING
        with pytest.raises(TimeoutError, match=rf"^Task {task.id} has not ended after 0\.001 s; it goes on, ask"):
            await task.result(0.001)
        waiting = asyncio.ensure_future(task.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        gate.set()
        assert text_of(await task.result(PATIENCE)) == "held"


@requirement("E-016")
async def test_a_task_is_cancelled_before_its_cancellation_returns(server: TaskServer, gate: asyncio.Event) -> None:
    async with server.started():
        task = await server.call_tool("hold", task_meta=TASK)
        assert (await task.cancel("no longer wanted")).status is Status.CANCELLED
        assert (await task.fetch()).status_message == "no longer wanted"
        with pytest.raises(TaskCancelled, match="was cancelled: no longer wanted"):
            await task
        with pytest.raises(AlreadyFinished):
            await task.cancel()


async def test_the_work_of_a_cancelled_task_is_stopped(server: TaskServer) -> None:
    ended = asyncio.Event()

    @server.tool(task=True)
    async def wait_long(ctx: TaskContext) -> None:
        try:
            await ctx.elicit("Go on?", {"type": "object"})
        finally:
            ended.set()

    async with server.started():
        task = await server.call_tool("wait_long", task_meta=TASK)
        await asked(task)
        await task.cancel()
        async with asyncio.timeout(PATIENCE):
            await ended.wait()


@pytest.mark.parametrize(("code", "data"), [(-32602, None), (-1, {"why": ["a", 1]})])
async def test_an_error_of_the_protocol_is_raised_with_its_code_and_data(
    server: TaskServer, code: int, data: Any
) -> None:
    @server.tool(task=True)
    async def refuse() -> None:
        raise MCPError(code, "No", data)

    async with server.started():
        task = await server.call_tool("refuse", task_meta=TASK)
        with pytest.raises(ToolFailed, match=r"^No$") as failed:
            await task
        assert (failed.value.code, failed.value.data) == (code, data)
        assert task.latest.status is Status.FAILED


@pytest.mark.parametrize("error", [ToolError("Not today"), RuntimeError("secret")])
async def test_a_tools_own_report_of_an_error_is_a_result(server: TaskServer, error: Exception) -> None:
    @server.tool(task=True)
    async def fail() -> None:
        raise error

    async with server.started():
        result = await (await server.call_tool("fail", task_meta=TASK))
        assert result.is_error
        assert ("Not today" in text_of(result)) == isinstance(error, ToolError)


async def test_a_task_that_was_lost_is_an_error(server: TaskServer) -> None:
    @server.tool(task=TaskPolicy("optional", timeout=0.01))
    async def sleep() -> None:
        await asyncio.Event().wait()

    async with server.started():
        with pytest.raises(ToolFailed, match=r"^The task of \w+ failed: .*0\.01"):
            await (await server.call_tool("sleep", task_meta=TASK))


async def test_tools_in_threads_are_tasks_too(server: TaskServer) -> None:
    @server.tool(task=True)
    def count(to: int, ctx: SyncContext) -> str:
        ctx.progress(to, to, "counted")
        return threading.current_thread().name

    @server.tool(task=True)
    def plain(a: int) -> int:
        return a

    async with server.started():
        task = await server.call_tool("count", {"to": 3}, task_meta=TASK)
        assert text_of(await task) != threading.current_thread().name
        assert (await task.fetch()).status_message == "counted"
        assert text_of(await (await server.call_tool("plain", {"a": 1}, task_meta=TASK))) == "1"


async def test_tools_may_come_and_go_while_the_server_runs(server: TaskServer) -> None:
    async def late() -> str:
        return "late"

    async with server.started():
        server.add_tool(late, task=True)
        assert text_of(await (await server.call_tool("late", task_meta=TASK))) == "late"
        server.remove_tool("late")
        with pytest.raises(InvalidArgument, match="'late' are no tasks here"):
            await server.call_tool("late", task_meta=TASK)


@pytest.mark.parametrize("call", ["call_tool", "task", "list_tasks"])
async def test_a_server_that_does_not_run_says_what_to_do(server: TaskServer, call: str) -> None:
    calls: dict[str, Any] = {
        "call_tool": lambda: server.call_tool("add", {"a": 1}, task_meta=TASK),
        "task": lambda: server.task("task_1"),
        "list_tasks": server.list_tasks,
    }
    with pytest.raises(RuntimeError, match=r"Tasks are not running: .*lifespan"):
        await calls[call]()
    async with server.started():
        pass
    with pytest.raises(RuntimeError, match="Tasks are not running"):
        await calls[call]()


async def test_a_task_may_be_run_by_another_server_on_the_same_store(tmp_path: Any) -> None:
    def made(concurrency: int) -> TaskServer:
        server = TaskServer("test", store=f"sqlite:///{tmp_path}/tasks.db", concurrency=concurrency)

        @server.tool(task=TaskPolicy("optional", ttl=7))
        async def where(ctx: Context) -> int:
            return id(ctx.mcp_server)

        return server

    front, back = made(0), made(8)
    async with front.started():
        task = await front.call_tool("where", task_meta=TASK)
        assert (await task.wait(0.001)).attempt == 0
        async with back.started():
            assert (await task.result(PATIENCE)).structured_content == {"result": id(back)}
        lifetime = task.latest.created_at, task.latest.expires_at
        assert lifetime[1]
        assert (lifetime[1] - lifetime[0]).total_seconds() >= 7


async def test_a_plain_server_with_the_extension_has_the_same_calls() -> None:
    tasks = Tasks("memory://")
    server = MCPServer("plain", extensions=[tasks], lifespan=tasks.lifespan)

    @server.tool()
    @tasks.tool()
    async def add(a: int) -> int:
        return a + 1

    @server.resource("notes://{name}")
    async def note(name: str) -> str:
        return name

    tasks.say("resource", "notes://{name}", task=True)
    async with tasks.lifespan(server):
        task = await tasks.local.call_tool("add", {"a": 1}, TaskMeta())
        assert (await task).structured_content == {"result": 2}
        (item,) = await (await tasks.local.read_resource("notes://x", TaskMeta()))
        assert item.content == "x"
        assert {each.id for each in (await tasks.local.list(None, None, 50)).tasks} >= {task.id}


async def test_the_engine_of_a_running_server_has_the_task_of_a_handle(server: TaskServer) -> None:
    async with server.started():
        engine: Engine = server.tasks.running.engine
        task = await server.call_tool("add", {"a": 1}, task_meta=TASK)
        assert (await engine.finished(task.latest)).status is Status.COMPLETED
