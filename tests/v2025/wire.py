"""Clients of any version on any transport, told apart by what they declare; they answer only what a test answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal, TypeVar, cast

from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.shared.memory import MessageStream, create_client_server_memory_streams
from starlette.applications import Starlette

from coatcheck import Engine
from coatcheck.server import TaskServer
from tests.forked import Forked, fork
from tests.matrix import over_http, pipes
from tests.matrix.clients import Client, Json
from tests.matrix.peers import PATIENCE, Heard, Peer, Pending
from tests.server.asgi import running

OLDER, OLD, VERSION, NEW = "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"
EXTENSION = "io.modelcontextprotocol/tasks"
RELATED = "io.modelcontextprotocol/related-task"
HINT = "io.modelcontextprotocol/model-immediate-response"
INPUT_KEY, TOLD_PROGRESS = "coatcheck/inputKey", "coatcheck/progress"
STATUS, PROGRESS = "notifications/tasks/status", "notifications/progress"
NOT_FOUND = {"code": -32602, "message": "Failed to retrieve task: Task not found"}
ASKABLE: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
"""The capabilities of a client that can be asked everything."""
WITH_TASKS: Json = {**ASKABLE, "extensions": {EXTENSION: {}}}
"""And of one of 2026-07-28 that knows tasks."""

Transport = Literal["memory", "sse", "json"]
Caller = TypeVar("Caller", bound="OverHTTP")


def related(task_id: str) -> Json:
    return {RELATED: {"taskId": task_id}}


def meta_of(question: Heard, task_id: str) -> Json:
    """Return the `_meta` a question of this task should have: whose it is, and whatever name the task gave it."""
    return {**related(task_id), INPUT_KEY: question.params["_meta"][INPUT_KEY]}


def text_of(result: Json) -> str:
    (block,) = result["content"]
    return block["text"]


class Talk(Peer):
    """A client that is driven by hand: what the server asks it waits in `question` until the test replies."""

    def __init__(self, client: Client, *rest: Any) -> None:
        super().__init__(client, *rest)
        self.answers: dict[str, Json] = {}
        """What is answered at once, by method."""
        self._taken: set[Any] = set()

    # Asking

    async def ask(self, method: str, /, **params: Any) -> Json:
        """Send a request and return its result. Raises MCPError if it is refused."""
        return outcome(await self.request(method, params))

    async def refusal(self, method: str, /, **params: Any) -> Json:
        """Send a request that is refused, and return the error."""
        answer = await self.request(method, params)
        assert "error" in answer, answer
        return answer["error"]

    async def use(self, tool: str, /, **arguments: Any) -> Json:
        """Call a tool without asking for a task, and return its result."""
        return await self.ask("tools/call", name=tool, arguments=arguments)

    async def hand_in(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool as a task, and return the task's id."""
        created = await self.ask("tools/call", name=tool, arguments=arguments, task={})
        return created["task"]["taskId"]

    async def get(self, task_id: str) -> Json:
        return await self.ask("tasks/get", taskId=task_id)

    async def collect(self, task_id: str) -> Json:
        return await self.ask("tasks/result", taskId=task_id)

    def collecting(self, task_id: str, **params: Any) -> Pending:
        return self.begin("tasks/result", {"taskId": task_id, **params})

    async def tools(self) -> dict[str, Json]:
        listed = await self.ask("tools/list")
        return {tool["name"]: tool for tool in listed["tools"]}

    # Being asked and told

    async def question(self, method: str | None = None) -> Heard:
        """Return the next request of the server, or the next with this method."""

        def is_next(heard: Heard) -> bool:
            asked: Any = heard.message.get("id")
            return asked is not None and asked not in self._taken and method in (None, heard.method)

        found = await self.until(is_next)
        self._taken.add(found.message["id"])
        return found

    async def reply(self, question: Heard, result: Mapping[str, Any]) -> None:
        await self.send({"jsonrpc": "2.0", "id": question.message["id"], "result": dict(result)})

    async def refuse(self, question: Heard, **error: Any) -> None:
        await self.send({"jsonrpc": "2.0", "id": question.message["id"], "error": error})

    async def told(self, task_id: str, status: str) -> Json:
        """Return the task as a status notification tells it, once it is in this status."""
        heard = await self.until(lambda heard: heard.method == STATUS and _is(heard, task_id, status))
        return heard.params

    def all_told(self, method: str) -> list[Heard]:
        return [heard for heard in self.heard if heard.method == method]

    def receive(self, message: Json, stream: int | None = None) -> None:
        if "method" not in message or "id" not in message:
            super().receive(message, stream)
            return
        assert message.pop("jsonrpc") == "2.0", message
        heard = Heard(message, stream)
        self.heard.append(heard)
        self._news.set()
        if heard.method in self.answers:
            self.spawn(self.reply(heard, self.answers[heard.method]))


def _is(heard: Heard, task_id: str, status: str) -> bool:
    return heard.params["taskId"] == task_id and heard.params["status"] == status


def outcome(answer: Json) -> Json:
    if error := cast("Json | None", answer.get("error")):
        raise MCPError(error["code"], error["message"], error.get("data"))
    return answer["result"]


class InMemory(Talk, pipes.InMemory):
    """On the SDK's own streams."""

    def __init__(self, client: Client, streams: MessageStream) -> None:
        super().__init__(client, streams)


class OnStdio(Talk, pipes.OnStdio):
    """On the pipes of another process."""

    def __init__(self, client: Client, process: Forked, said: asyncio.StreamReader) -> None:
        super().__init__(client, process, said)


class OverHTTP(Talk, over_http.OverHTTP):
    """Posts to the ASGI application, byte for byte, within a session if the server gives one."""

    def __init__(self, client: Client, app: Starlette, *, token: str | None = None, stands: bool = True) -> None:
        """`stands`: whether it opens the standing stream after the handshake."""
        super().__init__(client, app)
        self._more = {"authorization": f"Bearer {token}"} if token else {}
        self._stands = stands

    async def greet(self) -> None:
        await Peer.greet(self)
        if self._stands and not self.client.is_modern:
            await self.stand()

    async def stand(self) -> None:
        """Open the standing stream."""
        headers = {**self._headers(), "accept": "text/event-stream"}
        self._standing = over_http.Exchange(self._app, "GET", headers, b"")
        status, _ = await self._standing.head()
        assert status == 200, status
        self.spawn(self._read(self._standing, None, is_stream=True))
        # The SDK takes the stream into use a moment after it has sent its head.
        await self.ask("ping")

    @property
    def session(self) -> str | None:
        return self._session.get("mcp-session-id")

    async def end(self) -> int:
        """End the session, and return the HTTP status of that."""
        exchange = over_http.Exchange(self._app, "DELETE", self._headers(), b"")
        status, _ = await exchange.head()
        await exchange.ended()
        return status

    def becomes(self, user: str) -> None:
        """Say from now on to be another user."""
        self._more = {"authorization": f"Bearer {user}"}

    async def post(self, method: str, params: Mapping[str, Any]) -> tuple[int, bytes]:
        """Post a request of which nothing is expected, and return the HTTP status and the body of its answer."""
        message = self.client.request(99, method, params)
        exchange = over_http.Exchange(self._app, "POST", self._headers(message), json.dumps(message).encode())
        status, _ = await exchange.head()
        body = b"".join([part async for part in exchange.parts()])
        await exchange.ended()
        return status, body

    def drop(self, pending: Pending) -> None:
        """Lose the connection a request was made on."""
        self._open[pending.id].hang_up()

    def _headers(self, message: Mapping[str, Any] | None = None) -> dict[str, str]:
        return {**super()._headers(message), **self._more}


class Place:
    """A server that runs, and where clients connect to it."""

    def __init__(self, server: MCPServer[Any], app: Starlette, stack: AsyncExitStack) -> None:
        self.server, self.app, self._stack = server, app, stack

    @property
    def engine(self) -> Engine:
        return cast("TaskServer", self.server).tasks.running.engine

    async def connect(self, transport: Transport, **who: Any) -> Talk:
        return await (self.memory(**who) if transport == "memory" else self.http(**who))

    async def memory(self, version: str = VERSION, capabilities: Json = ASKABLE) -> InMemory:
        return await self._stack.enter_async_context(_in_memory(self.server, _client(version, capabilities)))

    async def http(
        self, version: str = VERSION, capabilities: Json = ASKABLE, *, token: str | None = None, stands: bool = True
    ) -> OverHTTP:
        return await self.enter(OverHTTP(_client(version, capabilities), self.app, token=token, stands=stands))

    async def enter(self, caller: Caller) -> Caller:
        """Have a caller shake hands; it is closed with the place."""
        return await self._stack.enter_async_context(_greeted(caller))


def _client(version: str, capabilities: Json) -> Client:
    return Client("test", version, capabilities)


@asynccontextmanager
async def served(server: MCPServer[Any], transport: Transport = "sse", **options: Any) -> AsyncGenerator[Place]:
    """Run a server. `options` are those of its ASGI application."""
    app = server.streamable_http_app(json_response=transport == "json", **options)
    async with running(app), AsyncExitStack() as stack:
        yield Place(server, app, stack)


@asynccontextmanager
async def on_stdio(program: Callable[..., None], *arguments: str) -> AsyncGenerator[OnStdio]:
    """Serve a client by another process, which ends when the client leaves."""
    process, said = await fork(program, *arguments, stream=1)
    try:
        caller = OnStdio(_client(VERSION, ASKABLE), process, said)
        reading = caller.start(caller.read())
        await caller.greet()
        yield caller
        await caller.close()
        await caller.hang_up()
        async with asyncio.timeout(PATIENCE):
            await reading
        await process.ended(PATIENCE)
    finally:
        await process.clean_up(PATIENCE)


@asynccontextmanager
async def _greeted(caller: Caller) -> AsyncGenerator[Caller]:
    await caller.greet()
    yield caller
    await caller.close()


@asynccontextmanager
async def _in_memory(server: MCPServer[Any], client: Client) -> AsyncGenerator[InMemory]:
    core = server.session_manager.app
    async with create_client_server_memory_streams() as (ours, theirs):
        caller = InMemory(client, ours)
        serving = asyncio.create_task(core.run(*theirs, core.create_initialization_options()))
        reading = caller.start(caller.read())
        await caller.greet()
        yield caller
        await caller.close()
        await ours[1].aclose()
        async with asyncio.timeout(PATIENCE):
            await serving
            await reading
