"""The ways to a server: streams, as over stdio and in memory; HTTP, answered with streams or JSON; direct calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.runner import modern_on_request
from mcp.shared.direct_dispatcher import DirectDispatcher, create_direct_dispatcher_pair
from mcp.shared.dispatcher import DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import NAME_BEARING_METHODS
from mcp.shared.memory import MessageStream, create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from starlette.types import ASGIApp

from tests.sdk.asgi import PATIENCE, exchange
from tests.sdk.peer import NEWER, OLDER, Client, Json, Peer

Connect = Callable[[MCPServer[Any], Client], AbstractAsyncContextManager[Peer]]
_PATH = "/mcp"
_STREAM = "text/event-stream"
_SESSION = "mcp-session-id"


class OnStreams(Peer):
    def __init__(self, client: Client, streams: MessageStream) -> None:
        super().__init__(client)
        self._from, self._to = streams

    async def send(self, message: Json) -> None:
        await self._to.send(SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False)))

    async def read(self) -> None:
        async for item in self._from:
            assert isinstance(item, SessionMessage), item
            self.receive(json.loads(item.message.model_dump_json(by_alias=True, exclude_unset=True)), "only")

    async def stand_by(self) -> None:
        """There is one stream for everything."""

    async def leave(self) -> None:
        await self._to.aclose()


@asynccontextmanager
async def on_streams(server: MCPServer[Any], client: Client) -> AsyncGenerator[OnStreams]:
    """Serve one client as over stdio: what the SDK's client in memory does too, before 2026-07-28."""
    server.streamable_http_app()
    core = server.session_manager.app  # the public way there
    async with create_client_server_memory_streams() as (ours, theirs):
        peer = OnStreams(client, ours)
        serving = asyncio.create_task(core.run(*theirs, core.create_initialization_options()))
        peer.spawn(peer.read())
        await peer.greet()
        yield peer
        await peer.leave()
        async with asyncio.timeout(PATIENCE):
            await serving
        await peer.close()


class OverHTTP(Peer):
    def __init__(self, app: ASGIApp, client: Client) -> None:
        super().__init__(client)
        self._app = app
        self.session: dict[str, str] = {}

    async def stand_by(self) -> None:
        """Open the standing stream. The server has it in use once it has also answered something else."""
        is_open = asyncio.Event()
        self.spawn(self._stand_by(is_open))
        async with asyncio.timeout(PATIENCE):
            await is_open.wait()
        await self.result("ping")

    async def leave(self) -> None:
        async with exchange(self._app, "DELETE", _PATH, self._headers()) as ending:
            assert (await ending.head())[0] == 200

    async def send(self, message: Json) -> None:
        async with exchange(self._app, "POST", _PATH, self._headers(message), message) as sending:
            status, headers = await sending.head()
            if _SESSION in headers:
                self.session = {_SESSION: headers[_SESSION]}
            if status == 202:
                return
            if not headers["content-type"].startswith(_STREAM):
                self.receive(json.loads(await sending.body()), "own")
                return
            async for event in sending.events():
                self.receive(json.loads(event), "own")

    async def _stand_by(self, is_open: asyncio.Event) -> None:
        async with exchange(self._app, "GET", _PATH, {**self._headers(), "accept": _STREAM}) as standing:
            status, _ = await standing.head()
            assert status == 200, status
            is_open.set()
            async for event in standing.events():
                self.receive(json.loads(event), "standing")

    def _headers(self, message: Json | None = None) -> dict[str, str]:
        given = {
            "host": "127.0.0.1:8000",
            "content-type": "application/json",
            "accept": f"application/json, {_STREAM}",
            "mcp-protocol-version": self.client.version,
            **self.session,
        }
        if self.client.is_modern and message and "method" in message:
            given["mcp-method"] = message["method"]
            if (name := NAME_BEARING_METHODS.get(message["method"])) is not None:
                given["mcp-name"] = message["params"][name]
        return {**given, **self.client.headers}


@asynccontextmanager
async def over_http(server: MCPServer[Any], client: Client, **options: Any) -> AsyncGenerator[OverHTTP]:
    """Serve the ASGI application to one client. `options` are those of `streamable_http_app`."""
    app = server.streamable_http_app(**options)
    async with app.router.lifespan_context(app), another(app, client) as peer:
        yield peer


@asynccontextmanager
async def another(app: ASGIApp, client: Client) -> AsyncGenerator[OverHTTP]:
    """Connect a client to an application that runs."""
    peer = OverHTTP(app, client)
    await peer.greet()
    yield peer
    await peer.close()


class Direct(Peer):
    """As the SDK's client in memory, which since 2026-07-28 calls the server without any messages in between."""

    def __init__(self, client: Client, ours: DirectDispatcher) -> None:
        super().__init__(client)
        self._ours = ours

    async def send(self, message: Json) -> None:
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = await self._ours.send_raw_request(
                message["method"], message["params"], {"on_progress": self._on_progress}
            )
        except MCPError as error:
            reply["error"] = error.error.model_dump(exclude_none=True)
        self.receive(json.loads(json.dumps(reply)), "only")

    async def stand_by(self) -> None:
        """It is called back."""

    async def leave(self) -> None:
        self._ours.close()

    async def on_request(self, _: DispatchContext[Any], method: str, params: Mapping[str, Any] | None) -> Json:
        raise AssertionError(f"nothing can be asked here, but this was: {method}")

    async def on_notify(self, _: DispatchContext[Any], method: str, params: Mapping[str, Any] | None) -> None:
        self.receive({"jsonrpc": "2.0", "method": method, "params": dict(params or {})}, "only")

    async def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        params = {"progress": progress, "total": total, "message": message}
        self.receive({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}, "only")


@asynccontextmanager
async def directly(server: MCPServer[Any], client: Client) -> AsyncGenerator[Direct]:
    server.streamable_http_app()
    core = server.session_manager.app
    async with core.lifespan(core) as state:
        ours, theirs = create_direct_dispatcher_pair(raise_handler_exceptions=False)
        peer = Direct(client, ours)
        peer.spawn(theirs.run(modern_on_request(core, state), _no_notifications))
        peer.spawn(ours.run(peer.on_request, peer.on_notify))
        yield peer
        await peer.close()


async def _no_notifications(_: Any, method: str, params: Mapping[str, Any] | None) -> None:
    raise AssertionError(f"clients of this version have no notifications, but sent {method}")


@dataclass(frozen=True)
class Way:
    """How clients of a version reach a server."""

    name: str
    version: str
    connect: Connect

    def __call__(self, server: MCPServer[Any], **client: Any) -> AbstractAsyncContextManager[Peer]:
        """Connect a client; what it can and says may be given."""
        return self.connect(server, Client(self.version, **client))

    def __str__(self) -> str:
        return f"{self.name}-{self.version}"


as_json = partial(over_http, json_response=True)
OLDER_WAYS = [Way("streams", OLDER, on_streams), Way("sse", OLDER, over_http), Way("json", OLDER, as_json)]
NEWER_WAYS = [
    Way("streams", NEWER, on_streams),
    Way("sse", NEWER, over_http),
    Way("json", NEWER, as_json),
    Way("direct", NEWER, directly),
]
