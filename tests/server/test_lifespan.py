"""From start to stop: workers live as long as the server is served, once, twice or again, alone or mounted."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from mcp.server.mcpserver import Context, MCPServer
from starlette.applications import Starlette
from starlette.routing import Mount

from coatcheck.server import Tasks, TaskServer, http_app
from tests.requirements.marks import requirement
from tests.server.asgi import running
from tests.server.wire import OverHTTP, headers, in_memory, message, over_http

pytestmark = pytest.mark.anyio


def _with_add(server: TaskServer) -> TaskServer:
    @server.tool(task=True)
    async def add(a: int) -> int:
        return a + 1

    return server


async def test_nothing_runs_before_and_after(server: TaskServer) -> None:
    _with_add(server)
    before = asyncio.all_tasks()
    with pytest.raises(RuntimeError):
        _ = server.tasks.running
    async with in_memory(server) as caller:
        assert server.tasks.running.worker is not None
        await caller.result("add", a=1)
    with pytest.raises(RuntimeError):
        _ = server.tasks.running
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("connect", [in_memory, over_http])
async def test_a_server_can_be_stopped_and_started_again(connect: Any, tmp_path: Path) -> None:
    server = _with_add(TaskServer("test", store=f"sqlite:///{tmp_path}/tasks.db"))
    ids: list[str] = []
    for _ in range(3):
        async with connect(server) as caller:
            ids.append(await caller.hand_in("add", a=1))
            for task_id in ids:
                assert (await caller.finished(task_id))["status"] == "completed"


async def test_several_clients_in_memory_share_one_engine(server: TaskServer) -> None:
    async with AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(in_memory(_with_add(server)))]
        engine = server.tasks.running.engine
        callers += [await stack.enter_async_context(in_memory(server)) for _ in range(4)]
        assert server.tasks.running.engine is engine
        task_id = await callers[0].hand_in("add", a=1)
        assert {(await caller.finished(task_id))["status"] for caller in callers} == {"completed"}


async def test_whoever_came_first_may_leave_first(server: TaskServer) -> None:
    _with_add(server)
    first = in_memory(server)
    caller = await first.__aenter__()
    ready = asyncio.Event()

    async def second() -> str:
        async with in_memory(server) as other:
            ready.set()
            await left.wait()
            return (await other.result("add", a=1))["content"][0]["text"]

    left = asyncio.Event()
    waiting = asyncio.create_task(second())
    await ready.wait()
    await caller.hand_in("add", a=1)
    await first.__aexit__(None, None, None)
    left.set()
    assert await waiting == "2"


async def test_clients_that_come_and_go_at_once_leave_nothing_behind(server: TaskServer) -> None:
    _with_add(server)

    async def come_and_go() -> str:
        async with in_memory(server) as caller:
            return (await caller.result("add", a=1))["content"][0]["text"]

    for _ in range(5):
        assert await asyncio.gather(*(come_and_go() for _ in range(5))) == ["2"] * 5
    with pytest.raises(RuntimeError):
        _ = server.tasks.running


async def test_a_lifespan_that_fails_is_told_and_can_be_tried_again() -> None:
    fails = True

    @asynccontextmanager
    async def own(_: MCPServer[Any]) -> AsyncGenerator[None]:
        if fails:
            raise OSError("no database")
        yield

    server = _with_add(TaskServer("test", store="memory://", lifespan=own))
    with pytest.raises(OSError, match="no database"):
        async with in_memory(server):
            pass
    fails = False
    async with in_memory(server) as caller:
        assert (await caller.result("add", a=1))["content"][0]["text"] == "2"


async def test_a_failure_of_everyone_who_waits_for_the_start_leaves_no_error_unseen() -> None:
    @asynccontextmanager
    async def own(_: MCPServer[Any]) -> AsyncGenerator[None]:
        raise OSError("no database")
        yield

    server = _with_add(TaskServer("test", store="memory://", lifespan=own))
    unseen: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))

    async def come() -> None:
        async with in_memory(server):
            pass

    outcomes = await asyncio.gather(come(), come(), come(), return_exceptions=True)
    assert all(isinstance(outcome, OSError) for outcome in outcomes), outcomes
    gc.collect()
    assert unseen == []


@requirement("R-25")
async def test_work_under_way_is_given_time_when_the_server_stops(tmp_path: Path) -> None:
    server = TaskServer("test", store=f"sqlite:///{tmp_path}/tasks.db")
    started, go_on = asyncio.Event(), asyncio.Event()

    @server.tool(task=True)
    async def slow() -> str:
        started.set()
        await go_on.wait()
        return "done"

    app = server.streamable_http_app()
    async with running(app):
        task_id = await OverHTTP(app, server.tasks).hand_in("slow")
        await started.wait()
        asyncio.get_running_loop().call_soon(go_on.set)
    async with over_http(server) as caller:
        assert (await caller.get(task_id))["status"] == "completed"


# Mounted


Mounted = Callable[[TaskServer], Starlette]


def _in_starlette(server: TaskServer) -> Starlette:
    inner = server.streamable_http_app()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with server.session_manager.run():
            yield

    return Starlette(routes=[Mount("/", app=inner)], lifespan=lifespan)


def _with_the_inner_lifespan(server: TaskServer) -> Starlette:
    inner = server.streamable_http_app()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with inner.router.lifespan_context(inner):
            yield

    return Starlette(routes=[Mount("/", app=inner)], lifespan=lifespan)


def _as_routes(server: TaskServer) -> Starlette:
    inner = server.streamable_http_app()
    return Starlette(routes=list(inner.routes), lifespan=inner.router.lifespan_context)


def _as_the_guide_has_it(server: TaskServer) -> Starlette:
    endpoint = http_app(server, server.tasks)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with endpoint.router.lifespan_context(endpoint):
            yield

    return Starlette(routes=[Mount("/", endpoint)], lifespan=lifespan)


def _in_fastapi(server: TaskServer) -> Starlette:
    endpoint = http_app(server, server.tasks)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with endpoint.router.lifespan_context(endpoint):
            yield

    app = FastAPI(lifespan=lifespan)
    app.mount("/", endpoint)
    return app


MOUNTS = [_in_starlette, _with_the_inner_lifespan, _as_routes, _as_the_guide_has_it, _in_fastapi]


@pytest.mark.parametrize("mount", MOUNTS)
async def test_a_mounted_server_starts_and_stops_its_workers_with_the_application(
    server: TaskServer, mount: Mounted
) -> None:
    app = mount(_with_add(server))
    before = asyncio.all_tasks()
    async with running(app):
        caller = OverHTTP(app, server.tasks)
        assert (await caller.result("add", a=1))["content"][0]["text"] == "2"
        assert server.tasks.running.worker
    with pytest.raises(RuntimeError):
        _ = server.tasks.running
    assert asyncio.all_tasks() == before


async def test_two_servers_in_one_application_have_each_their_own_tasks() -> None:
    one, other = (_with_add(TaskServer(name, store="memory://")) for name in ("one", "other"))
    apps = [server.streamable_http_app() for server in (one, other)]
    async with running(apps[0]), running(apps[1]):
        first, second = OverHTTP(apps[0], one.tasks), OverHTTP(apps[1], other.tasks)
        task_id = await first.hand_in("add", a=1)
        await first.finished(task_id)
        answer = await second.post(second.message("tasks/get", {"taskId": task_id}))
    assert answer.message()["error"]["code"] == -32602


# The application as `coatcheck serve` has it


@asynccontextmanager
async def _served(server: TaskServer) -> AsyncGenerator[OverHTTP]:
    app = http_app(server, server.tasks)
    async with running(app):
        yield OverHTTP(app, server.tasks)


async def test_the_served_application_answers_with_json_unless_progress_is_wanted(server: TaskServer) -> None:
    @server.tool(task=True)
    async def slow(ctx: Context) -> str:
        await ctx.report_progress(1, 2)
        return "done"

    async with _served(server) as caller:
        quiet = await caller.post(message("tools/call", {"name": "slow", "arguments": {}}, {}))
        wanted = {"name": "slow", "arguments": {}, "_meta": {"progressToken": 1}}
        eager = await caller.post(message("tools/call", wanted, {}))
    assert quiet.message()["result"] == eager.message()["result"]
    kinds = [answer.headers["content-type"] for answer in (quiet, eager)]
    assert kinds == ["application/json", "text/event-stream"]
    assert b"notifications/progress" in eager.body


async def test_the_served_application_serves_tasks_and_streams(server: TaskServer) -> None:
    async with _served(_with_add(server)) as caller:
        task_id = await caller.hand_in("add", a=1)
        await caller.finished(task_id)
        async with caller.listening(task_id) as stream:
            assert (await stream.start())[1]["content-type"] == "text/event-stream"
            assert (await stream.message())["params"]["notifications"]["taskIds"] == [task_id]
            assert (await stream.message())["params"]["status"] == "completed"


async def test_the_served_application_takes_blanks_off_header_values(server: TaskServer) -> None:
    async with _served(_with_add(server)) as caller:
        task_id = await caller.hand_in("add", a=1)
        body = message("tasks/get", {"taskId": task_id})
        answer = await caller.post(body, [(name, f"{value} \t") for name, value in headers(body)])
    assert answer.status == 200


async def test_the_served_application_of_a_server_without_tasks_is_as_ever() -> None:
    server: MCPServer[Any] = MCPServer("test")

    @server.tool()
    async def add(a: int) -> int:
        return a + 1

    app = http_app(server)
    async with running(app):
        answer = await OverHTTP(app, Tasks("memory://")).call("add", a=1)
    assert answer["structuredContent"] == {"result": 2}


async def test_the_served_application_enters_an_authors_lifespan_once() -> None:
    entered: list[str] = []

    @asynccontextmanager
    async def own(server: MCPServer[Any]) -> AsyncGenerator[None]:
        entered.append(server.name)
        yield

    async with running(http_app(MCPServer("test", lifespan=own))):
        assert entered == ["test"]


@requirement("S-072")
async def test_the_served_application_speaks_with_the_old_generation(server: TaskServer) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    given = [header for header in headers(body) if not header[0].startswith("mcp-")]
    async with _served(_with_add(server)) as caller:
        answer = (await caller.post(body, given)).message()
    assert answer["result"]["protocolVersion"] == "2025-11-25"
    assert answer["result"]["capabilities"]["tasks"]["cancel"] == {}
