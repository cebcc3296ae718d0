"""A load balancer: one address, several processes behind it, and a rule for who gets which request."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count

import httpx2
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from tests.proxy.upstreams.hosts import Host

SESSION = "mcp-session-id"
_HOP = frozenset({"connection", "transfer-encoding", "content-length", "host", "keep-alive"})
Rule = Callable[[Mapping[str, str]], int]
"""Headers of a request in; number of the process that gets it out."""


def taking_turns(processes: int) -> Rule:
    """Never the same one twice in a row."""
    turns = count()
    return lambda headers: next(turns) % processes


class Balancer:
    """An ASGI application that hands requests on, by a rule, and keeps a list of who got which."""

    def __init__(self, backends: Sequence[str], rule: Rule) -> None:
        self._backends, self._rule = backends, rule
        self._http = httpx2.AsyncClient(timeout=None)
        self.served: list[tuple[str, int]] = []
        self.sessions: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        request = Request(scope, receive)
        chosen = self.sessions.get(request.headers.get(SESSION, ""), -1)
        if chosen < 0:
            chosen = self._rule(request.headers)
        self.served.append((request.headers.get("mcp-method", request.method), chosen))
        headers = {name: value for name, value in request.headers.items() if name not in _HOP}
        url = f"{self._backends[chosen]}{request.url.path}"
        sent = self._http.build_request(request.method, url, headers=headers, content=await request.body())
        answer = await self._http.send(sent, stream=True)
        self._remember(answer.headers.get(SESSION), chosen)
        kept = {name: value for name, value in answer.headers.items() if name not in _HOP}
        try:
            await StreamingResponse(answer.aiter_raw(), answer.status_code, kept)(scope, receive, send)
        finally:
            await answer.aclose()

    def _remember(self, session: str | None, chosen: int) -> None:
        """A balancer that knows nothing of sessions remembers nothing."""

    async def close(self) -> None:
        await self._http.aclose()


class StickyBalancer(Balancer):
    """The requests of a session go where it began."""

    def _remember(self, session: str | None, chosen: int) -> None:
        if session:
            self.sessions[session] = chosen


@asynccontextmanager
async def balancing(balancer: Balancer) -> AsyncGenerator[str]:
    """Run a balancer here; yield where it is."""
    host = Host(lambda: balancer)
    await host.start()
    try:
        yield f"http://127.0.0.1:{host.port}"
    finally:
        await host.stop()
        await balancer.close()
