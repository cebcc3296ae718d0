"""A server of HTTP that says, byte by byte, what a test wants it to say."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import msgspec

PATIENCE = 15
"""Seconds to wait for what should come soon, on however busy a machine."""


@dataclass(frozen=True)
class Sent:
    """A request as it came in."""

    line: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        return msgspec.json.decode(self.body)


class Visit:
    """One connection that was made to the server."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number, self._reader, self._writer = number, reader, writer

    async def heard(self) -> Sent:
        """Return the next request.

        Raises:
            EOFError: There is none; the client has hung up.
        """
        line, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
        headers = dict(each.lower().split(": ", 1) for each in lines)
        return Sent(line, headers, await self._reader.readexactly(int(headers["content-length"])))

    async def say(self, *parts: bytes) -> None:
        """Send each part so that it arrives by itself."""
        for part in parts:
            self._writer.write(part)
            await self._writer.drain()
            for _ in range(3):
                await asyncio.sleep(0)

    def say_now(self, data: bytes) -> None:
        """Have it arrive before anything else is done."""
        self._writer.write(data)

    async def until_left(self) -> None:
        with suppress(ConnectionError):
            while await self._reader.read(65_536):
                pass

    def hang_up(self) -> None:
        self._writer.transport.abort()


Script = Callable[[Visit], Awaitable[None]]


class Scripted:
    """A server, and who visits it."""

    def __init__(self, script: Script) -> None:
        self._script, self._news = script, asyncio.Event()
        self._visiting: set[asyncio.Task[Any]] = set()
        self.visits = 0
        self.open = 0
        self.url = ""
        self.port = 0

    async def until(self, is_so: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not is_so():
                self._news.clear()
                await self._news.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._visiting.add(task)
        self.visits, self.open = self.visits + 1, self.open + 1
        self._news.set()
        try:
            with suppress(EOFError, ConnectionError, asyncio.CancelledError):
                await self._script(Visit(self.visits, reader, writer))
        finally:
            self.open -= 1
            self._news.set()
            writer.transport.abort()
            self._visiting.discard(task)

    async def close(self) -> None:
        for task in self._visiting:
            task.cancel()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*self._visiting)


@asynccontextmanager
async def scripted(
    script: Script, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Scripted]:
    made = Scripted(script)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(await asyncio.start_server(made.serve, host, 0, ssl=tls))
        stack.push_async_callback(made.close)
        made.port = server.sockets[0].getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        made.url = f"http{'s' if tls else ''}://{shown}:{made.port}/mcp"
        yield made


def whole(body: bytes, *headers: str, status: str = "200 OK", kind: str = "application/json") -> bytes:
    """Return an answer with a length."""
    return head(f"content-length: {len(body)}", f"content-type: {kind}", *headers, status=status) + body


def head(*headers: str, status: str = "200 OK") -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", *headers, "", "")).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST = b"0\r\n\r\n"
STREAM = head("content-type: text/event-stream", "transfer-encoding: chunked")


def event(message: Any) -> bytes:
    """Return a message as an event, in a chunk of its own."""
    return chunk(b"event: message\r\ndata: %b\r\n\r\n" % msgspec.json.encode(message))
