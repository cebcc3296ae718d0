"""`Tasks` on an `MCPServer` that is there already, and tools that come and go while it runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import RequestParams

from coatcheck.server import TaskContext, TaskPolicy, Tasks, TaskServer, http_app
from tests.requirements.marks import requirement
from tests.server.asgi import running
from tests.server.conftest import Connect, Watching
from tests.server.wire import EXTENSION, WithSDK, client_options, in_memory, over_http

pytestmark = pytest.mark.anyio


@pytest.fixture
def tasks() -> Tasks:
    return Tasks("memory://")


@pytest.fixture
def plain(tasks: Tasks) -> MCPServer[Any]:
    return MCPServer("test", version="1", extensions=[tasks], lifespan=tasks.lifespan)


@requirement("S-003", "R-08")
async def test_a_tool_of_an_existing_server_becomes_a_task(
    plain: MCPServer[Any], tasks: Tasks, connect: Connect
) -> None:
    @plain.tool()
    @tasks.tool()
    async def add(a: int, ctx: Context, task: TaskContext) -> int:
        await ctx.report_progress(1)
        return a + bool(task.task.id)

    @plain.tool()
    async def greet() -> str:
        return "hello"

    async with connect(plain, tasks) as caller:
        assert (await caller.result("add", a=1))["structuredContent"] == {"result": 2}
        assert (await caller.call("greet"))["resultType"] == "complete"


async def test_every_way_to_say_how_it_is_a_task_works(plain: MCPServer[Any], tasks: Tasks) -> None:
    @plain.tool(name="renamed")
    @tasks.tool("required", name="renamed")
    async def one() -> None: ...

    @plain.tool()
    @tasks.tool(TaskPolicy("optional", ttl=5))
    def two() -> None: ...

    @plain.tool()
    @tasks.tool(False)
    def three() -> None: ...

    assert tasks.describe() == ["renamed (required)", "two (optional)"]
    async with in_memory(plain, tasks) as caller:
        kinds = [(await caller.call(tool))["resultType"] for tool in ("renamed", "two", "three")]
    assert kinds == ["task", "task", "complete"]


async def test_a_policy_under_a_name_that_no_tool_has_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    tasks = Tasks("memory://")
    server: MCPServer[Any] = MCPServer("test", extensions=[tasks], lifespan=tasks.lifespan)

    @server.tool()
    @tasks.tool(name="another")
    async def one() -> None: ...

    app = http_app(server, tasks)  # which enters the lifespan twice
    with caplog.at_level(logging.WARNING, "coatcheck"):
        async with running(app):
            pass
    assert ["'another'" in record.message for record in caplog.records if record.levelname == "WARNING"] == [True]


async def test_a_default_of_its_tasks_counts_for_every_decorated_tool() -> None:
    tasks = Tasks("memory://", default="required")
    server: MCPServer[Any] = MCPServer("test", extensions=[tasks], lifespan=tasks.lifespan)

    @server.tool()
    @tasks.tool(None)
    async def slow() -> None: ...

    assert tasks.describe() == ["slow (required)"]


async def test_the_authors_own_lifespan_is_given_to_the_tasks() -> None:
    ended: list[str] = []

    @asynccontextmanager
    async def own(server: MCPServer[Any]) -> AsyncGenerator[dict[str, str]]:
        yield {"name": server.name}
        ended.append(server.name)

    tasks = Tasks("memory://", lifespan=own)
    server: MCPServer[Any] = MCPServer("test", extensions=[tasks], lifespan=tasks.lifespan)

    @server.tool()
    @tasks.tool()
    async def look(ctx: Context[Any]) -> str:
        return ctx.request_context.lifespan_context["name"]

    async with in_memory(server, tasks) as caller:
        assert (await caller.result("look"))["content"][0]["text"] == "test"
    assert ended == ["test"]


async def test_a_forgotten_lifespan_is_pointed_out() -> None:
    tasks = Tasks("memory://")
    server: MCPServer[Any] = MCPServer("test", extensions=[tasks])
    with pytest.raises(RuntimeError, match=r"lifespan=tasks\.lifespan"):
        _ = tasks.running
    assert server.name == "test"


@requirement("F-060")
async def test_a_server_whose_tasks_were_never_started_says_that_it_failed() -> None:
    tasks = Tasks("memory://")
    server: MCPServer[Any] = MCPServer("test", extensions=[tasks])
    async with Client(server, **client_options()) as client:
        with pytest.raises(MCPError) as refused:
            await WithSDK(client, tasks).get("any")
    assert refused.value.code == -32603


class Another(Extension):
    identifier = "com.example/another"

    def methods(self) -> list[MethodBinding]:
        async def hello(ctx: Any, params: RequestParams) -> dict[str, Any]:
            return {"hello": True}

        return [MethodBinding("com.example/hello", RequestParams, hello)]


async def test_other_extensions_work_beside_tasks() -> None:
    server = TaskServer("test", store="memory://", extensions=[Another()])
    async with over_http(server) as caller:
        found = (await caller.request("server/discover", {}))["capabilities"]["extensions"]
        assert set(found) == {"com.example/another", EXTENSION}
        assert (await caller.request("com.example/hello", {}))["hello"] is True


@pytest.mark.parametrize(("is_first", "seen"), [(True, "task"), (False, "HandedIn")])
async def test_another_extension_sees_the_task_that_was_made_if_it_stands_before(is_first: bool, seen: str) -> None:
    watching, tasks = Watching(), Tasks("memory://")
    extensions: list[Extension] = [watching, tasks] if is_first else [tasks, watching]
    server: MCPServer[Any] = MCPServer("test", extensions=extensions, lifespan=tasks.lifespan)

    @server.tool()
    @tasks.tool()
    async def add(a: int) -> int:
        return a + 1

    async with in_memory(server, tasks) as caller:
        await caller.result("add", a=1)
    assert watching.seen == [seen]


async def test_an_extension_given_to_a_task_server_sees_the_task_that_was_made() -> None:
    watching = Watching()
    server = TaskServer("test", store="memory://", extensions=[watching])
    server.add_tool(late, task=True)
    async with in_memory(server) as caller:
        await caller.result("late", a=1)
    assert watching.seen == ["task"]


async def test_middleware_of_the_author_sees_calls_and_task_methods_as_any_other() -> None:
    seen: list[str] = []

    async def note(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        seen.append(ctx.method)
        return await call_next(ctx)

    server = TaskServer("test", store="memory://", middleware=[note])
    server.add_tool(late, task=True)
    async with in_memory(server) as caller:
        task_id = await caller.hand_in("late", a=1)
        await caller.finished(task_id)
        await caller.update(task_id, {})
        await caller.cancel(task_id)
    assert seen == ["tools/call", "tasks/get", "tasks/update", "tasks/cancel"]


# Tools that come later


async def late(a: int) -> int:
    return a + 1


async def test_a_tool_that_is_added_while_the_server_runs_can_be_a_task(server: TaskServer, connect: Connect) -> None:
    async with connect(server) as caller:
        server.add_tool(late, task=True)
        assert (await caller.result("late", a=1))["structuredContent"] == {"result": 2}


async def test_a_tool_may_be_added_by_a_task(server: TaskServer) -> None:
    @server.tool(task=True)
    async def learn(ctx: Context) -> None:
        server.add_tool(late, task="required")

    async with in_memory(server) as caller:
        await caller.result("learn")
        assert (await caller.result("late", a=1))["structuredContent"] == {"result": 2}


async def test_work_that_waited_for_its_tool_starts_when_it_comes(server: TaskServer) -> None:
    async with in_memory(server) as caller:
        engine = server.tasks.running.engine
        task = await engine.submit("late", {"a": 1}, meta={"protocolVersion": "2026-07-28"})
        assert (await caller.get(task.id))["statusMessage"] == "Waiting for a worker"
        server.add_tool(late, task=True)
        assert (await caller.finished(task.id))["result"]["structuredContent"] == {"result": 2}


async def test_a_task_handed_in_by_a_program_is_run_like_any_other(server: TaskServer) -> None:
    server.add_tool(late, task=True)
    async with in_memory(server) as caller:
        task = await server.tasks.running.engine.submit("late", {"a": 1})
        assert (await caller.finished(task.id))["status"] == "completed"


@pytest.mark.parametrize("is_running", [False, True])
async def test_a_second_tool_of_the_same_name_changes_nothing_as_in_the_sdk(
    server: TaskServer, is_running: bool, caplog: pytest.LogCaptureFixture
) -> None:
    @server.tool(name="twice", task=True)
    async def first() -> str:
        return "first"

    async def second() -> str:
        return "second"

    if not is_running:
        server.add_tool(second, "twice", task=False)
    async with in_memory(server) as caller:
        if is_running:
            server.add_tool(second, "twice", task=False)
        assert (await caller.result("twice"))["content"][0]["text"] == "first"
    assert "already exists" in caplog.text


async def test_a_second_tool_of_the_same_name_while_running_is_no_error(server: TaskServer) -> None:
    server.add_tool(late, task=True)
    async with in_memory(server) as caller:
        server.add_tool(late, task=True)
        assert (await caller.result("late", a=1))["structuredContent"] == {"result": 2}


async def test_a_tool_that_was_removed_can_be_added_again(server: TaskServer) -> None:
    server.add_tool(late, task=True)

    async def later(a: int) -> int:
        return a + 2

    async with in_memory(server) as caller:
        server.remove_tool("late")
        server.add_tool(later, "late", task=True)
        assert (await caller.result("late", a=1))["structuredContent"] == {"result": 3}


async def test_a_tool_that_was_removed_is_refused_as_in_a_plain_call(server: TaskServer) -> None:
    server.add_tool(late, task=True)
    async with over_http(server) as caller:
        server.remove_tool("late")
        answers: list[Any] = []
        for one in (caller, caller.again(capabilities={})):
            try:
                answers.append(await one.call("late", a=1))
            except MCPError as error:
                answers.append(error.error)
    assert answers[0] == answers[1]


async def test_a_removed_tool_does_not_stop_work_that_has_begun(server: TaskServer) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @server.tool(task=True)
    async def slow() -> str:
        started.set()
        await go_on.wait()
        return "done"

    async with in_memory(server) as caller:
        task_id = await caller.hand_in("slow")
        await started.wait()
        server.remove_tool("slow")
        go_on.set()
        assert (await caller.finished(task_id))["result"]["content"][0]["text"] == "done"
