"""Where the programs of these tests stop until the test lets them go on: each says which moment it has reached."""

from __future__ import annotations

import asyncio
import os
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

PATIENCE = 60
"""Seconds to wait for what should come soon, on however busy a machine."""


async def visit(port: int, moment: str) -> None:
    """Say that a moment is reached, and go on when the gate lets it: what programs call, in whatever process."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"{moment} {os.getpid()}\n".encode())
        await reader.readline()
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


class Gate:
    """Lets visitors through at once, but for those at a moment that is closed."""

    def __init__(self) -> None:
        self.port = 0
        self._pids: dict[str, list[int]] = {}
        self._closed: dict[str, asyncio.Event] = {}
        self._news = asyncio.Condition()
        self._writers: set[StreamWriter] = set()

    def close(self, moment: str) -> None:
        self._closed[moment] = asyncio.Event()

    def open(self, moment: str) -> None:
        """Let through who waits at a moment, and who will come."""
        self._closed[moment].set()

    async def reached(self, moment: str, times: int = 1) -> int:
        """Wait until a moment has been reached so often; return which process was the last."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: len(self._pids.get(moment, ())) >= times)
            return self._pids[moment][-1]

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(ConnectionError, ValueError):  # whoever was killed on the way says nothing
            moment, pid = (await reader.readline()).decode().split()
            async with self._news:
                self._pids.setdefault(moment, []).append(int(pid))
                self._news.notify_all()
            if moment in self._closed:
                await self._closed[moment].wait()
            writer.write(b"go on\n")
            await writer.drain()
        self._writers.discard(writer)
        writer.close()

    def leave(self) -> None:
        for event in self._closed.values():
            event.set()
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def gatekeeping() -> AsyncGenerator[Gate]:
    gate = Gate()
    async with await asyncio.start_server(gate.serve, "127.0.0.1") as server:
        gate.port = server.sockets[0].getsockname()[1]
        yield gate
        gate.leave()
