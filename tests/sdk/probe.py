"""A server with little in it but what a test puts there: a method, an interceptor, middleware, tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolRequestParams, RequestParams

RequestContext = ServerRequestContext[Any, Any]
Handler = Callable[[RequestContext, Any], Awaitable[HandlerResult]]
Interceptor = Callable[[CallToolRequestParams, RequestContext, CallNext], Awaitable[HandlerResult]]

EXTENSION = "com.example/probe"
METHOD = "probe/run"


class Probe(Extension):
    identifier = EXTENSION

    def __init__(self, bindings: Sequence[MethodBinding], interceptor: Interceptor | None = None) -> None:
        self._bindings, self._interceptor = bindings, interceptor

    def methods(self) -> Sequence[MethodBinding]:
        return self._bindings

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext
    ) -> HandlerResult:
        if self._interceptor is None:
            return await call_next(ctx)
        return await self._interceptor(params, ctx, call_next)


def serving(
    handler: Handler | None = None,
    *,
    bindings: Sequence[MethodBinding] = (),
    interceptor: Interceptor | None = None,
    middleware: Sequence[ServerMiddleware[Any]] = (),
    **options: Any,
) -> MCPServer[Any]:
    """Return a server with one tool, `echo`. `handler` answers `probe/run`."""
    bound = [*bindings, MethodBinding(METHOD, RequestParams, handler)] if handler else bindings
    server: MCPServer[Any] = MCPServer(
        "probe", version="1", extensions=[Probe(bound, interceptor)], middleware=middleware, **options
    )

    @server.tool()
    async def echo(text: str = "nothing") -> str:
        return text

    return server
