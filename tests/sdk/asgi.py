"""One HTTP request to an ASGI application in this process, answered whole or as a stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Message, Scope

PATIENCE = 20
"""Seconds to wait for what should come at once."""


class Exchange:
    """A request under way."""

    def __init__(self, app: ASGIApp, scope: Scope, body: bytes) -> None:
        self._body: bytes | None = body
        self._gone = asyncio.Event()
        self._sent: asyncio.Queue[Message | None] = asyncio.Queue()
        self._serving = asyncio.ensure_future(app(scope, self._receive, self._sent.put))
        self._serving.add_done_callback(lambda _: self._sent.put_nowait(None))

    async def head(self) -> tuple[int, dict[str, str]]:
        """Return status and headers, once they are there."""
        given = await self._next()
        assert given, "the application ended without an answer"
        return given["status"], {name.decode(): value.decode() for name, value in given["headers"]}

    async def body(self) -> bytes:
        return b"".join([part async for part in self._parts()])

    async def events(self) -> AsyncIterator[bytes]:
        """Yield what the events of a stream carry, as they come."""
        buffer = b""
        async for part in self._parts():
            buffer += part
            while b"\r\n\r\n" in buffer:
                event, buffer = buffer.split(b"\r\n\r\n", 1)
                for line in event.splitlines():
                    if line.startswith(b"data:"):
                        yield line.removeprefix(b"data:").strip()

    async def leave(self) -> None:
        """Hang up, and see the application be done with it."""
        self._gone.set()
        async with asyncio.timeout(PATIENCE):
            await self._serving

    async def _parts(self) -> AsyncIterator[bytes]:
        while part := await self._next():
            yield part.get("body", b"")
            if not part.get("more_body", False):
                return

    async def _next(self) -> Message | None:
        async with asyncio.timeout(PATIENCE):
            return await self._sent.get()

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}


@asynccontextmanager
async def exchange(
    app: ASGIApp, verb: str, target: str, headers: Mapping[str, str], message: Mapping[str, Any] | None = None
) -> AsyncGenerator[Exchange]:
    """Send a request; whoever leaves hangs up."""
    body = b"" if message is None else json.dumps(message).encode()
    under_way = Exchange(app, scope(verb, target, headers), body)
    try:
        yield under_way
    finally:
        await under_way.leave()


def scope(verb: str, target: str, headers: Mapping[str, str]) -> dict[str, Any]:
    path, _, query = target.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": verb,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8_000),
    }
