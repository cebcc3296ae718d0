"""The HTTP application as `coatcheck serve` serves it: JSON answers, streams where something is streamed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from mcp.server.mcpserver import MCPServer
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coatcheck.server.fast_path import FastPath
from coatcheck.server.replay import read_body, replay
from coatcheck.server.tasks import Tasks

Answer = Callable[[ASGIApp], ASGIApp]
_LONGEST_LOOK = 65_536
_PLAIN_VERSIONS = {version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS}


def http_app(server: MCPServer[Any], tasks: Tasks | None = None, **options: Any) -> Starlette:
    """Return an application for `server`. `options` are those of `MCPServer.streamable_http_app`.

    A JSON answer costs a third less than a stream of one event, but carries no progress. So callers that ask for
    progress get a stream, and so do all of the generations before 2026-07-28; everyone else gets JSON.
    """
    MCPServer.streamable_http_app(server, **options, json_response=False)
    streaming = server.session_manager
    app = MCPServer.streamable_http_app(server, **options, json_response=True)

    def answer(endpoint: ASGIApp) -> ASGIApp:
        chosen = _Choice(endpoint, streaming.handle_request)
        return FastPath(chosen, server, tasks) if tasks else chosen

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with streaming.run(), server.session_manager.run():
            yield

    routes = replaced(app.router.routes, server, answer)
    middleware = [Middleware(_TrimmedHeaders), *app.user_middleware]
    return Starlette(debug=app.debug, routes=routes, middleware=middleware, lifespan=lifespan)


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

    def __init__(self, plain: ASGIApp, streaming: ASGIApp) -> None:
        self._plain, self._streaming = plain, streaming

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        version = next((value for name, value in scope["headers"] if name == b"mcp-protocol-version"), None)
        if version is None or version in _PLAIN_VERSIONS:
            await self._streaming(scope, receive, send)
            return
        messages = await read_body(receive, _LONGEST_LOOK)
        endpoint = self._streaming if _asks_for_progress(messages) else self._plain
        await endpoint(scope, replay(messages, receive), send)


def _asks_for_progress(messages: list[Message]) -> bool:
    body = messages[0].get("body", b"") if len(messages) == 1 else b"".join(m.get("body", b"") for m in messages)
    return b"progressToken" in body


class _TrimmedHeaders:
    """Takes the blanks off the ends of header values, which one of uvicorn's parsers leaves there."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and any(value[-1:] in (b" ", b"\t") for _, value in scope["headers"]):
            scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        await self._app(scope, receive, send)
