"""What stands between a store and its server: it cuts connections where a test wants it to, and can speak TLS."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from types import TracebackType
from typing import Self


class Proxy:
    """Forwards to a port of this host. What was cut may be dialed again."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._port, self._tls = port, tls
        self._writers: set[asyncio.StreamWriter] = set()
        self._up_left: int | None = None
        self._down_left: int | None = None
        self._muted: set[asyncio.StreamWriter] = set()
        self._mute_at = b""
        self.connections = self.cuts = self.muted_at = 0
        self.is_shut = False
        """Whether new connections are closed at once."""
        self._is_let_go = asyncio.Event()
        self._is_let_go.set()
        self.held = 0
        """How many bytes wait to be let go."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._server.wait_closed(), 10)

    def cut(self) -> None:
        """Cut all connections."""
        self.cuts += 1
        self._up_left = self._down_left = None
        for writer in list(self._writers):
            writer.transport.abort()

    def cut_after(self, *, up: int | None = None, down: int | None = None) -> None:
        """Cut all connections once, after so many more bytes have gone to the server, or come from it."""
        self._up_left, self._down_left = up, down
        if up == 0:
            self.cut()

    def hold(self) -> None:
        """Keep back what goes to the server until it is let go."""
        self._is_let_go.clear()

    def let_go(self) -> None:
        self._is_let_go.set()
        self.held = 0

    def mute(self) -> None:
        """From now on, let nothing through on the connections there are, and do not close them either."""
        self._muted = set(self._writers)

    def mute_at(self, words: bytes) -> None:
        """Let nothing through any more to the server on the next connection that says these words, them included."""
        self._mute_at = words

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.is_shut:
            writer.transport.abort()
            return
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, there_writer}
        try:
            await asyncio.gather(
                self._pump(reader, there_writer, is_up=True), self._pump(there_reader, writer, is_up=False)
            )
        finally:
            self._writers -= {writer, there_writer}

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_up: bool) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                if is_up and not self._is_let_go.is_set():
                    self.held += len(data)
                    await self._is_let_go.wait()
                if is_up and self._mute_at and self._mute_at in data:
                    self._mute_at = b""
                    self._muted.add(sink)
                    self.muted_at += 1
                if sink in self._muted:
                    continue
                allowed = data[: self._allow(len(data), is_up=is_up)]
                sink.write(allowed)
                if len(allowed) < len(data):
                    await sink.drain()
                    self.cut()
        sink.close()

    def _allow(self, size: int, *, is_up: bool) -> int | None:
        """Return how many bytes of so many may pass; None: all."""
        left = self._up_left if is_up else self._down_left
        if left is None:
            return None
        rest = max(left - size, 0)
        self._up_left, self._down_left = (rest, self._down_left) if is_up else (self._up_left, rest)
        return left
