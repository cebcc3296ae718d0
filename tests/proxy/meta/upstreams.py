"""The servers behind the proxy: in this process, over HTTP, and doing what a test tells them to."""

from __future__ import annotations

import asyncio
import socket
from collections import defaultdict
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    ResourceUpdatedNotification,
    ResourceUpdatedNotificationParams,
    SamplingMessage,
    TextContent,
    ToolListChangedNotification,
)
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from coatcheck.proxy.config import ServerEntry, server_entry
from coatcheck.server import TaskPolicy, TaskServer
from tests.matrix.peers import PATIENCE

Ctx = Context[Any, Any]
REFUSED = -32050
EVERYTHING = CallToolResult(
    content=[
        TextContent(type="text", text="plain"),
        TextContent(type="text", text='{"json": ["as", "text"]}'),
    ],
    structured_content={"deep": [1, 2.5, None, "ü"], "empty": {}},
    _meta={"example.com/mark": {"kept": True}},
)


class Word(BaseModel):
    value: str


class Moments:
    """What has been reached, by name; and what may be gone past."""

    def __init__(self) -> None:
        self._reached: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._open: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def reach(self, name: str) -> None:
        self._reached[name].set()

    async def reached(self, name: str) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._reached[name].wait()

    def open(self, name: str) -> None:
        self._open[name].set()

    async def passed(self, name: str) -> None:
        await self._open[name].wait()


class Tools:
    """What a server can do. Work has a name, begins, and goes on when the test opens the gate of that name."""

    def __init__(self) -> None:
        self.moments = Moments()
        self.answers: list[Any] = []
        """What was answered to the questions asked, in the order of the answers."""
        self.calls = 0

    async def echo(self, word: str) -> str:
        self.calls += 1
        return word

    async def everything(self) -> CallToolResult:
        return EVERYTHING

    async def work(self, name: str) -> str:
        """Begin, wait at the gate, end."""
        self.calls += 1
        self.moments.reach(name)
        try:
            await self.moments.passed(name)
        except asyncio.CancelledError:
            self.moments.reach(f"{name} stopped")
            raise
        return f"{name} is done"

    async def whoami(self, ctx: Ctx) -> str:
        """Return the session of whoever calls."""
        return await self.header("mcp-session-id", ctx)

    async def header(self, name: str, ctx: Ctx) -> str:
        assert ctx.request_context.request
        return ctx.request_context.request.headers[name]

    async def fail(self) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text="It went wrong")], is_error=True)

    async def refuse(self) -> str:
        raise MCPError(code=REFUSED, message="It is refused", data={"why": ["it was made so"]})

    async def refuse_late(self, name: str) -> str:
        await self.work(name)
        return await self.refuse()

    async def ask(self, questions: list[str], ctx: Ctx) -> str:
        """Ask one after the other; what goes wrong with one is an answer, too."""
        said: list[str] = []
        for question in questions:
            try:
                answer = await ctx.elicit(question, Word)
                self.answers.append(answer)
                said.append(answer.data.value if answer.action == "accept" else answer.action)
            except MCPError as error:
                self.answers.append(error)
                said.append(f"error {error.code}: {error.message}")
        return " and ".join(said)

    async def ask_quietly(self, question: str, ctx: Ctx) -> str:
        """Ask, and tell nobody what was answered."""
        self.answers.append(await ctx.elicit(question, Word))
        return "Thanks"

    async def ask_in_vain(self, name: str, ctx: Ctx) -> str:
        """Ask, and go on without the answer when the gate opens."""
        asking = asyncio.create_task(ctx.elicit("in vain?", Word))
        await self.moments.passed(name)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)  # the client is told, as long as this call is open
        return "It went without"

    async def sample(self, ctx: Ctx) -> str:
        message = SamplingMessage(role="user", content=TextContent(type="text", text="Say something"))
        try:
            params = CreateMessageRequestParams(messages=[message], max_tokens=10)
            said = await ctx.session.send_request(CreateMessageRequest(params=params), CreateMessageResult)
        except MCPError as error:
            return f"error {error.code}: {error.message}"
        assert isinstance(said.content, TextContent)
        return f"{said.model} said: {said.content.text}"

    async def log(self, level: Any, words: list[str], ctx: Ctx) -> str:
        for word in words:
            params = LoggingMessageNotificationParams(level=level, data=word, logger="tests")
            await ctx.session.send_notification(LoggingMessageNotification(params=params))
        return "logged"

    async def tell(self, uri: str, ctx: Ctx) -> str:
        """Tell that a resource has changed."""
        params = ResourceUpdatedNotificationParams(uri=uri)
        await ctx.session.send_notification(ResourceUpdatedNotification(params=params))
        return "told"

    async def flood(self, uri: str, times: int, ctx: Ctx) -> str:
        for _ in range(times):
            await self.tell(uri, ctx)
        return "told"

    async def tell_of_tools(self, ctx: Ctx) -> str:
        await ctx.session.send_notification(ToolListChangedNotification())
        return "told"

    async def report(self, name: str, ctx: Ctx) -> str:
        await ctx.report_progress(1, 2, "half of it")
        return await self.work(name)


_TOOLS = (
    "echo",
    "everything",
    "work",
    "whoami",
    "header",
    "fail",
    "refuse",
    "refuse_late",
    "ask",
    "ask_quietly",
    "ask_in_vain",
    "sample",
    "log",
    "tell",
    "flood",
    "tell_of_tools",
    "report",
)


def _hello(name: str) -> str:
    return f"hello {name}"


def _greet(name: str) -> str:
    return f"Greet {name}"


class Leaving:
    """Notes which sessions are ended by their clients."""

    def __init__(self, app: ASGIApp, moments: Moments) -> None:
        self._app, self._moments = app, moments

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
        if scope["type"] == "http" and scope["method"] == "DELETE":
            self._moments.reach(f"{dict(scope['headers'])[b'mcp-session-id'].decode()} left")


class Quiet(uvicorn.Server):
    """Leaves signals alone: by their handlers, streams of one server in a process are ended when another one stops."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class Upstream(Tools):
    """A server without tasks, at a port where it can be stopped and started again."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.port = 0
        self.subscriptions: list[str] = []
        """The URIs that were subscribed to (+) and no longer (-)."""
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def entry(self) -> ServerEntry:
        return server_entry(self.name, {"url": self.url})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def app(self) -> ASGIApp:
        return Leaving(self.server().streamable_http_app(), self.moments)

    async def left(self, session: str) -> None:
        """Wait until a client has ended its session."""
        await self.moments.reached(f"{session} left")

    def server(self) -> MCPServer[Any]:
        server = MCPServer[Any](self.name, version="1")
        server.middleware.append(self._take_subscriptions)
        for tool in _TOOLS:
            server.add_tool(getattr(self, tool))
        server.resource("memo://greeting", name="greeting")(lambda: "hello")
        server.resource("memo://people/{name}", name="people")(_hello)
        server.prompt(name="greet")(_greet)
        return server

    async def _take_subscriptions(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Note who subscribes to what, which `MCPServer` leaves to others."""
        sign = {"resources/subscribe": "+", "resources/unsubscribe": "-"}.get(ctx.method)
        if sign is None:
            return await call_next(ctx)
        self.subscriptions.append(f"{sign}{(ctx.params or {})['uri']}")
        return {}

    async def start(self) -> None:
        bound = socket.create_server(("127.0.0.1", self.port))
        self.port = bound.getsockname()[1]
        config = uvicorn.Config(self.app(), log_level="critical", lifespan="on", ws="none", timeout_graceful_shutdown=1)
        self._server = Quiet(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[bound]))

    async def stop(self) -> None:
        """Break all connections, and listen no more."""
        server, serving = self._server, self._serving
        if server is None or serving is None:
            return
        self._server = self._serving = None
        for connection in list(server.server_state.connections):
            connection.transport.abort()  # pyright: ignore[reportOptionalMemberAccess, reportUnknownMemberType, reportAttributeAccessIssue]
        server.should_exit = server.force_exit = True
        async with asyncio.timeout(PATIENCE):
            await serving


class TaskUpstream(Upstream):
    """A server with tasks, in one generation, which it keeps when it is stopped."""

    def __init__(self, name: str, folder: Path, protocol: str) -> None:
        super().__init__(name)
        self._store, self._protocol = f"sqlite:///{folder}/{name}.db", protocol

    @property
    def entry(self) -> ServerEntry:
        return server_entry(self.name, {"url": self.url, "protocol": self._protocol})

    def server(self) -> MCPServer[Any]:
        server = TaskServer(self.name, store=self._store, bind_sessions=False, grace=0.1)
        for tool in _TOOLS:
            server.add_tool(getattr(self, tool), task=TaskPolicy("optional", resumable=True, poll_interval=0.1))
        return server


@asynccontextmanager
async def upstream(name: str) -> AsyncGenerator[Upstream]:
    server = Upstream(name)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
