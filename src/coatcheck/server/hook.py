"""The SDK's middleware, which it calls provisional: the one place we stand on it.

Three things have no other hook: what the handshake and the list of tools say, streams, and an answer to
`tools/call` that is no tool result, which the SDK refuses to let out of a handler before 2026-07-28.
What is relied on is written down in tests/sdk, and run against every version of the SDK we support.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError

from coatcheck.dialects.words import INTERNAL_ERROR

RequestContext = ServerRequestContext[Any, Any]
Step = Callable[[RequestContext, CallNext], Awaitable[HandlerResult]]


def authors_middleware(server: MCPServer[Any]) -> Sequence[Any]:
    """Return the middleware of a server that is neither the SDK's own nor ours."""
    return [one for one in server.middleware if not isinstance(one, Hook) and type(one) not in _sdks_own()]


def chained(middleware: Sequence[Any], handler: CallNext) -> CallNext:
    """Return what takes a request through all of them, the first outermost, to the handler."""
    for one in reversed(middleware):
        handler = partial(one, call_next=handler)
    return handler


@cache
def _sdks_own() -> frozenset[type]:
    return frozenset(type(one) for one in MCPServer("any").middleware)


class Verbatim(MCPError):
    """Raised by a handler to answer with `answer` as it is. An `MCPError`, because those cross the SDK."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(INTERNAL_ERROR, "An answer that only the middleware can give")
        self.answer = answer


class Hook:
    """A middleware that takes a step of its own for some methods."""

    def __init__(self, steps: Mapping[str, Step]) -> None:
        self._steps = steps

    async def __call__(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        step = self._steps.get(ctx.method)
        if step is None or ctx.request_id is None:
            return await call_next(ctx)
        try:
            return await step(ctx, call_next)
        except Verbatim as verbatim:
            return verbatim.answer
