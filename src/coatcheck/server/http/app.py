"""The HTTP application as `coatcheck serve` serves it: JSON answers, streams where something is streamed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from mcp.server.mcpserver import MCPServer
from mcp_types.jsonrpc import HEADER_MISMATCH
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coatcheck.server.http.fast_path import FastPath
from coatcheck.server.http.replay import read_body, replay
from coatcheck.server.http.seats import Seats
from coatcheck.server.tasks import Tasks

Answer = Callable[[ASGIApp], ASGIApp]
_LONGEST_LOOK = 65_536
_PLAIN_VERSIONS = {version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS}


def http_app(server: MCPServer[Any], tasks: Tasks | None = None, **options: Any) -> Starlette:
    """Return an application for `server`. `options` are those of `MCPServer.streamable_http_app`.

    A JSON answer costs a third less than a stream of one event, but carries no progress. So callers that ask for
    progress get a stream, and so do all of the generations before 2026-07-28; everyone else gets JSON.
    """
    stream = MCPServer.streamable_http_app(server, **options, json_response=False)
    if tasks is None:
        return stream  # two endpoints would enter its lifespan twice; that of tasks is made for it
    streaming = server.session_manager
    seats = Seats(streaming.handle_request, server, tasks)
    app = MCPServer.streamable_http_app(server, **options, json_response=True)

    def answer(endpoint: ASGIApp) -> ASGIApp:
        chosen = _Choice(endpoint, seats, tasks)
        return FastPath(chosen, server, tasks) if app.user_middleware else chosen

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with streaming.run(), server.session_manager.run():
            yield

    routes = replaced(app.router.routes, server, answer)
    made = _App(debug=app.debug, routes=routes, middleware=app.user_middleware, lifespan=lifespan)
    if not app.user_middleware:
        # Nobody has to be authenticated, so the shorter way can begin before the first turn.
        path = options.get("streamable_http_path", "/mcp")
        made.first = _At(path, FastPath(tasks.shortened(made.first, server), server, tasks), made.first)
    return made


def replaced(routes: list[BaseRoute], server: MCPServer[Any], answer: Answer) -> list[BaseRoute]:
    """Return the routes with the SDK's endpoint replaced, inside of what authenticates its callers."""
    return [_replaced(route, server, answer) if isinstance(route, Route) else route for route in routes]


def _replaced(route: Route, server: MCPServer[Any], answer: Answer) -> Route:
    endpoint = route.endpoint
    if isinstance(endpoint, RequireAuthMiddleware):
        inner = answer(endpoint.app)
        return Route(route.path, RequireAuthMiddleware(inner, endpoint.required_scopes, endpoint.resource_metadata_url))
    if getattr(endpoint, "session_manager", None) is server.session_manager:
        return Route(route.path, answer(cast("ASGIApp", endpoint)))
    return route


class _Choice:
    """Sends a request to the one of the SDK's two endpoints that answers it best."""

    def __init__(self, plain: ASGIApp, streaming: ASGIApp, tasks: Tasks) -> None:
        self._plain, self._streaming, self._tasks = plain, streaming, tasks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        version = headers.get(b"mcp-protocol-version")
        # Only where it answers with a stream does the SDK notice that a caller hangs up.
        is_watched = self._tasks.stops_without(headers.get(b"mcp-name", b"").decode("latin-1"))
        if version is None or version in _PLAIN_VERSIONS or is_watched:
            await self._streaming(scope, receive, send)
            return
        messages = await read_body(receive, _LONGEST_LOOK)
        endpoint = self._streaming if _asks_for_progress(messages) else self._plain
        await endpoint(scope, replay(messages, receive), send)


def _asks_for_progress(messages: list[Message]) -> bool:
    body = messages[0].get("body", b"") if len(messages) == 1 else b"".join(m.get("body", b"") for m in messages)
    return b"progressToken" in body


_BAD_NAME = JSONResponse(
    {"jsonrpc": "2.0", "id": None, "error": {"code": HEADER_MISMATCH, "message": "Mcp-Name must be ASCII"}}, 400
)


class _App(Starlette):
    """The first to see a request. It evens out what the SDK trips over:

    blanks at the ends of header values, which one of uvicorn's parsers leaves there; a name no client could have
    encoded; a client that leaves in the middle of its request.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.first: ASGIApp = super().__call__

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if any(value[-1:] in (b" ", b"\t") for _, value in scope["headers"]):
                scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
            if any(name == b"mcp-name" and not value.isascii() for name, value in scope["headers"]):
                await _BAD_NAME(scope, receive, send)
                return
        with suppress(ClientDisconnect):  # nobody is there to be told
            await self.first(scope, receive, send)


class _At:
    """One application at a path, another everywhere else, wherever both are mounted."""

    def __init__(self, path: str, there: ASGIApp, elsewhere: ASGIApp) -> None:
        self._path, self._there, self._elsewhere = path, there, elsewhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_there = scope["type"] == "http" and scope["path"] == scope.get("root_path", "") + self._path
        await (self._there if is_there else self._elsewhere)(scope, receive, send)
