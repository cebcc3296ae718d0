"""What stands between stores and PostgreSQL as a pooler of transactions does: each goes to another session."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

_PROTOCOL = 3 << 16
_TLS, _GSS, _CANCEL = 80877103, 80877104, 80877102
_PARSE, _QUERY, _SYNC, _END = b"P", b"Q", b"S", b"X"
_READY, _NEWS = b"Z", b"A"


class Session(NamedTuple):
    """A connection to the server, lent to one client for one transaction."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    greeting: bytes
    """What the server says to those it has let in; so clients are told the same."""


class Pooler:
    """Like PgBouncer with `pool_mode = transaction`, but for two things that are luck there.

    Two transactions in a row never get the same session, and no notification ever reaches a client.
    """

    def __init__(self, port: int, sessions: int = 3) -> None:
        self._server_port, self._count = port, sessions
        self._clients: set[asyncio.Task[None]] = set()
        self.free: asyncio.Queue[Session] = asyncio.Queue()
        self.statements: list[str] = []
        """What clients have sent."""

    async def __aenter__(self) -> Self:
        for _ in range(self._count):
            await self.add()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        while not self.free.empty():
            self.free.get_nowait().writer.close()

    async def add(self) -> None:
        self.free.put_nowait(await _open(self._server_port))

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.ensure_future(Client(self, reader, writer).serve())
        self._clients.add(serving)
        with suppress(asyncio.CancelledError, OSError, EOFError):
            await serving
        self._clients.discard(serving)
        writer.close()


class Client:
    def __init__(self, pooler: Pooler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._pooler, self._reader, self._writer = pooler, reader, writer
        self._session: Session | None = None
        self._answering: asyncio.Future[None] | None = None
        self._unanswered = 0

    async def serve(self) -> None:
        try:
            await self._greet()
            while (received := await _read(self._reader))[0] != _END:
                await self._ask(*received)
        finally:
            if self._session and self._answering:
                self._answering.cancel()
                self._session.writer.close()  # so that the server undoes what was not committed
                await self._pooler.add()

    async def _greet(self) -> None:
        while True:
            size, code = struct.unpack("!ii", await self._reader.readexactly(8))
            await self._reader.readexactly(size - 8)
            if code == _CANCEL:
                raise EOFError("Nothing is ever cancelled here")
            if code not in (_TLS, _GSS):
                break
            self._writer.write(b"N")
        session = await self._pooler.free.get()
        self._writer.write(session.greeting)
        self._pooler.free.put_nowait(session)

    async def _ask(self, kind: bytes, message: bytes) -> None:
        if self._session is None:
            self._session = await self._pooler.free.get()
            self._answering = asyncio.ensure_future(self._answer(self._session))
        self._unanswered += kind in (_QUERY, _SYNC)
        if kind in (_QUERY, _PARSE):
            words = message[5:].split(b"\0")
            self._pooler.statements.append(words[kind == _PARSE].decode())
        self._session.writer.write(message)

    async def _answer(self, session: Session) -> None:
        """Pass answers on until the transaction is over; then the session is free for others."""
        with suppress(OSError, EOFError):
            while True:
                kind, message = await _read(session.reader)
                if kind == _NEWS:
                    continue
                self._writer.write(message)
                self._unanswered -= kind == _READY
                if kind == _READY and message.endswith(b"I") and not self._unanswered:
                    self._session = None
                    self._pooler.free.put_nowait(session)
                    return
        self._writer.close()


async def _open(port: int) -> Session:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    words = b"user\0postgres\0database\0postgres\0client_encoding\0utf-8\0\0"
    writer.write(struct.pack("!ii", len(words) + 8, _PROTOCOL) + words)
    greeting, kind = b"", b""
    while kind != _READY:
        kind, message = await _read(reader)
        greeting += message
    return Session(reader, writer, greeting)


async def _read(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return of what kind the next message is, and all of it."""
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(int.from_bytes(head[1:], "big") - 4)
