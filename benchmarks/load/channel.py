"""One kept-alive HTTP/1.1 connection that carries one request at a time."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, cast


class Response(NamedTuple):
    status: int
    head: bytes
    """In lower case."""
    body: bytes


class Channel(asyncio.Protocol):
    """It reads bodies with a `Content-Length` and chunked ones, which is all a streamable HTTP server sends."""

    def __init__(self) -> None:
        self.is_closed = False
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._waiter: asyncio.Future[Response] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        if self._waiter and not self._waiter.done():
            self._waiter.set_exception(exc or ConnectionResetError("closed by the server"))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        response = parsed(self._buffer)
        if response and self._waiter and not self._waiter.done():
            self._buffer.clear()
            self._waiter.set_result(response)

    def close(self) -> None:
        if self._transport:
            self._transport.close()

    async def exchange(self, request: bytes) -> Response:
        assert self._transport
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiter


def parsed(buffer: bytearray) -> Response | None:
    """Return the response once all of it is in the buffer."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = bytes(buffer[:end]).lower()
    status, start = int(head[9:12]), end + 4
    if b"transfer-encoding: chunked" in head:
        body = _joined(buffer, start)
        return None if body is None else Response(status, head, body)
    mark = head.find(b"content-length:")
    length = int(head[mark + 15 :].split(b"\r\n", 1)[0]) if mark >= 0 else 0
    if len(buffer) < start + length:
        return None
    return Response(status, head, bytes(buffer[start : start + length]))


def _joined(buffer: bytearray, at: int) -> bytes | None:
    """Return the chunks that begin at `at` as one, or None while any is missing."""
    body = bytearray()
    while True:
        line = buffer.find(b"\r\n", at)
        if line < 0:
            return None
        size = int(buffer[at:line].split(b";", 1)[0], 16)
        at = line + 2
        if len(buffer) < at + size + 2:
            return None
        if size == 0:
            return bytes(body)
        body += buffer[at : at + size]
        at += size + 2
