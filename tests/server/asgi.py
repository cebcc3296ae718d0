"""An ASGI application called in this process: every header and byte as given, answers whole or as a stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.types import Message


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def message(self) -> dict[str, Any]:
        """Return the JSON-RPC answer; of a stream, the last message."""
        if self.headers["content-type"].startswith("text/event-stream"):
            return _events(self.body)[-1]
        return json.loads(self.body)


class Exchange:
    """One request under way."""

    def __init__(self, body: bytes, patience: float) -> None:
        self._body, self._patience = body, patience
        self._is_read = False
        self._gone = asyncio.Event()
        self._sent: asyncio.Queue[Message | None] = asyncio.Queue()
        self._buffer = b""

    async def receive(self) -> Message:
        if not self._is_read:
            self._is_read = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self._sent.put_nowait(message)

    def hang_up(self) -> None:
        self._gone.set()

    def end(self) -> None:
        self._sent.put_nowait(None)

    async def start(self) -> tuple[int, dict[str, str]]:
        """Return status and headers, once they are there."""
        head = await self._next()
        assert head, "the application ended without an answer"
        given = [(name.decode(), value.decode()) for name, value in head["headers"]]
        assert len(dict(given)) == len(given), given
        return head["status"], dict(given)

    async def answer(self) -> Answer:
        status, headers = await self.start()
        body = b""
        while part := await self._next():
            body += part.get("body", b"")
            if not part.get("more_body", False):
                break
        return Answer(status, headers, body)

    async def message(self) -> dict[str, Any]:
        """Return the next message of a stream, after `start`."""
        while b"\r\n\r\n" not in self._buffer:
            part = await self._next()
            assert part, "the stream has ended"
            self._buffer += part.get("body", b"")
        event, self._buffer = self._buffer.split(b"\r\n\r\n", 1)
        found = _events(event)
        return found[0] if found else await self.message()

    async def ended(self) -> bool:
        """Whether the application has said all it had to say about this request."""
        while part := await self._next():
            if not part.get("more_body", False):
                return True
        return True

    async def _next(self) -> Message | None:
        async with asyncio.timeout(self._patience):
            return await self._sent.get()


@asynccontextmanager
async def exchange(
    app: Any, body: bytes, headers: Sequence[tuple[str, str]], patience: float
) -> AsyncGenerator[Exchange]:
    """Post a body to /mcp; whoever leaves hangs up, and the application has to end then."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8000),
    }
    under_way = Exchange(body, patience)
    serving = asyncio.create_task(app(scope, under_way.receive, under_way.send))
    serving.add_done_callback(lambda _: under_way.end())
    try:
        yield under_way
    finally:
        under_way.hang_up()
        async with asyncio.timeout(patience):
            await serving


@asynccontextmanager
async def running(app: Starlette) -> AsyncGenerator[None]:
    async with app.router.lifespan_context(app):
        yield


def _events(stream: bytes) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix(b"data:")) for line in stream.splitlines() if line.startswith(b"data:")]
