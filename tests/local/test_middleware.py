"""What stands before a task: the author's middleware and other extensions, once, and never where the task runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, CallToolResult, TextContent

from coatcheck.errors import AnsweredOtherwise
from coatcheck.server import TaskServer
from tests.local.stage import PATIENCE, TASK, text_of
from tests.requirements.marks import requirement
from tests.server.conftest import Watching
from tests.server.wire import in_memory

pytestmark = pytest.mark.anyio

Request = ServerRequestContext[Any, Any]
Middleware = Callable[[Request, CallNext], Awaitable[HandlerResult]]


class Notes:
    """Middleware that note what they see, and how many tasks there are by then."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, Any]] = []
        self.rows: list[int] = []
        self.server: TaskServer | None = None

    def by(self, name: str) -> Middleware:
        async def note(ctx: Request, call_next: CallNext) -> HandlerResult:
            params: Any = ctx.params or {}
            if ctx.method in ("tools/call", "resources/read", "prompts/get"):
                self.seen.append((name, ctx.method, params.get("name") or params.get("uri")))
                if self.server and self.server.tasks.is_running:
                    self.rows.append(len(await self.server.tasks.running.engine.list_all()))
            return await call_next(ctx)

        return note


@pytest.fixture
def notes() -> Notes:
    return Notes()


def build(*middleware: Middleware, store: str = "memory://", **options: Any) -> TaskServer:
    server = TaskServer("test", store=store, middleware=middleware, **options)

    @server.tool(task=True)
    async def add(a: int, b: int = 0) -> int:
        return a + b

    @server.tool(task=True)
    async def parent(ctx: Context) -> str:
        return text_of(await (await server.call_tool("add", {"a": 1}, ctx, task_meta=TASK)))

    @server.resource("notes://{name}", task=True)
    async def note(name: str) -> str:
        return name

    @server.prompt(task=True)
    async def ask(topic: str) -> str:
        return topic

    return server


async def rows(server: TaskServer) -> int:
    return len(await server.tasks.running.engine.list_all())


@requirement("M-011", "M-013")
async def test_middleware_sees_each_call_once_in_order_before_there_is_a_task(notes: Notes) -> None:
    server = notes.server = build(notes.by("outer"), notes.by("inner"))
    async with server.started():
        await (await server.call_tool("add", {"a": 1}, task_meta=TASK))
        await (await server.read_resource("notes://x", task_meta=TASK))
        await (await server.render_prompt("ask", {"topic": "tides"}, task_meta=TASK))
    assert notes.seen == [
        ("outer", "tools/call", "add"),
        ("inner", "tools/call", "add"),
        ("outer", "resources/read", "notes://x"),
        ("inner", "resources/read", "notes://x"),
        ("outer", "prompts/get", "ask"),
        ("inner", "prompts/get", "ask"),
    ]
    assert notes.rows == [0, 0, 1, 1, 2, 2]


@requirement("M-011")
async def test_middleware_sees_calls_of_children_too(notes: Notes) -> None:
    server = build(notes.by("any"))
    async with server.started():
        assert text_of(await (await server.call_tool("parent", task_meta=TASK))) == "1"
    assert [name for _, _, name in notes.seen] == ["parent", "add"]


async def test_without_task_meta_a_call_is_the_sdks_own_and_passes_no_middleware(notes: Notes) -> None:
    server = build(notes.by("any"))
    async with server.started():
        await server.call_tool("add", {"a": 1})
        await server.read_resource("notes://x")
        await server.render_prompt("ask", {"topic": "tides"})
    assert notes.seen == []


@requirement("M-013")
async def test_middleware_does_not_see_a_task_that_is_run_by_another_server(notes: Notes, tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path}/tasks.db"
    front = build(notes.by("front"), store=store, concurrency=0)
    back = build(notes.by("back"), store=store)
    async with front.started(), back.started():
        task = await front.call_tool("add", {"a": 1}, task_meta=TASK)
        assert text_of(await task.result(PATIENCE)) == "1"
    assert notes.seen == [("front", "tools/call", "add")]


@requirement("M-013")
async def test_middleware_sees_a_call_over_the_wire_once_as_well(notes: Notes) -> None:
    async with in_memory(build(notes.by("any"))) as caller:
        await caller.finished(await caller.hand_in("add", a=1))
    assert notes.seen == [("any", "tools/call", "add")]


@pytest.mark.parametrize("code", [-32000, -32602])
async def test_middleware_may_refuse_and_nothing_is_written(code: int) -> None:
    async def refuse(ctx: Request, call_next: CallNext) -> HandlerResult:
        raise MCPError(code, "Not today", {"until": "tomorrow"})

    server = build(refuse)
    async with server.started():
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: server.call_tool("add", {"a": 1}, task_meta=TASK),
            lambda: server.read_resource("notes://x", task_meta=TASK),
            lambda: server.render_prompt("ask", {"topic": "tides"}, task_meta=TASK),
        ]
        for call in calls:
            with pytest.raises(MCPError, match="Not today") as refused:
                await call()
            assert (refused.value.error.code, refused.value.error.data) == (code, {"until": "tomorrow"})
        assert await rows(server) == 0


async def test_middleware_may_change_the_arguments() -> None:
    async def double(ctx: Request, call_next: CallNext) -> HandlerResult:
        params: Any = ctx.params or {}
        given = params["arguments"]
        return await call_next(replace(ctx, params={**params, "arguments": {**given, "a": 2 * given["a"]}}))

    server = build(double)
    async with server.started():
        assert text_of(await (await server.call_tool("add", {"a": 4, "b": 1}, task_meta=TASK))) == "9"


async def test_middleware_may_add_to_the_arguments_of_a_call_without_any() -> None:
    async def fill(ctx: Request, call_next: CallNext) -> HandlerResult:
        params: Any = ctx.params or {}
        return await call_next(replace(ctx, params={**params, "arguments": {**params["arguments"], "topic": "x"}}))

    server = build(fill)
    async with server.started():
        (message,) = (await (await server.render_prompt("ask", task_meta=TASK))).messages
        assert isinstance(message.content, TextContent)
        assert message.content.text == "x"


async def test_middleware_may_answer_itself_and_then_there_is_no_task() -> None:
    kept = CallToolResult(content=[TextContent(type="text", text="from the cache")])

    async def cache(ctx: Request, call_next: CallNext) -> HandlerResult:
        return kept

    server = build(cache)
    async with server.started():
        with pytest.raises(
            AnsweredOtherwise, match="'add' itself, so there is no task; take its `answer`"
        ) as otherwise:
            await server.call_tool("add", {"a": 1}, task_meta=TASK)
        assert otherwise.value.answer is kept
        assert await rows(server) == 0


async def test_a_call_of_nobody_looks_like_a_request_that_no_client_sent() -> None:
    looked: list[Any] = []

    async def look(ctx: Request, call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/call":
            looked.append((ctx.request_id, ctx.request, ctx.session.client_params, ctx.lifespan_context))
            await ctx.session.send_progress_notification("token", 1.0)  # nobody is told
        return await call_next(ctx)

    server = build(look)
    async with server.started():
        await (await server.call_tool("add", {"a": 1}, task_meta=TASK))
    assert looked == [(None, None, None, {})]


# Other extensions


class Refusing(Extension):
    identifier = "com.example/refusing"

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: Request, call_next: CallNext
    ) -> HandlerResult:
        if (params.arguments or {}).get("a") == 13:
            raise MCPError(-32000, "Unlucky")
        return await call_next(replace(ctx, params={"name": "add", "arguments": {"a": "changed in vain"}}))


@requirement("M-011", "M-013")
async def test_other_extensions_see_each_call_once_and_are_told_of_the_task() -> None:
    watching = Watching()
    server = build(extensions=[watching])
    async with server.started():
        await (await server.call_tool("add", {"a": 1}, task_meta=TASK))
        await (await server.read_resource("notes://x", task_meta=TASK))
        await server.call_tool("add", {"a": 1})
    assert watching.seen == ["task"]


async def test_other_extensions_may_refuse_a_call_but_not_change_it() -> None:
    server = build(extensions=[Refusing()])
    async with server.started():
        with pytest.raises(MCPError, match="Unlucky"):
            await server.call_tool("add", {"a": 13}, task_meta=TASK)
        assert await rows(server) == 0
        assert text_of(await (await server.call_tool("add", {"a": 1}, task_meta=TASK))) == "1"
