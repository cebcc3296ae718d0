"""A network between a process and its database that can be cut, frozen, or made deaf in one direction."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from tests.client_faults.proxy import reset

_PART = 65_536


class Network:
    """Passes bytes on in both directions, while they are let through."""

    def __init__(self, database: int) -> None:
        self._database, self.port = database, 0
        self._is_refusing = False
        self._to_database, self._to_process = asyncio.Event(), asyncio.Event()
        self._writers: set[StreamWriter] = set()
        self._towards_process: set[StreamWriter] = set()
        self._under_way: set[asyncio.Task[None]] = set()
        self.heal()

    def heal(self) -> None:
        """Let everything through, also what was held back."""
        self._is_refusing = False
        self._to_database.set()
        self._to_process.set()

    def freeze(self) -> None:
        """Let nothing through, and tell nobody."""
        self._to_database.clear()
        self._to_process.clear()

    def deafen(self) -> None:
        """Pass on what the process says, but not what it is answered."""
        self._to_process.clear()

    def mute(self) -> None:
        """Pass on what the database says, but not what it is asked."""
        self._to_database.clear()

    def refuse(self) -> None:
        """Reset all connections, and those to come as soon as they are made."""
        self._is_refusing = True
        self.cut()

    def cut(self) -> None:
        """Reset all connections; what was held back is lost."""
        for writer in self._writers:
            reset(writer)

    def half_close(self) -> None:
        """Tell the process that the database has nothing more to say, and go on listening to it."""
        for writer in self._towards_process:
            with suppress(OSError, RuntimeError):
                writer.write_eof()

    async def accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self._is_refusing:
            reset(writer)
            return
        task = asyncio.current_task()
        assert task
        self._under_way.add(task)
        try:
            await self._connect(reader, writer)
        finally:
            self._under_way.discard(task)

    async def leave(self) -> None:
        self.cut()
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _connect(self, reader: StreamReader, writer: StreamWriter) -> None:
        ours = {writer}
        self._writers.add(writer)
        try:
            with suppress(OSError):
                other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._database)
                ours.add(other_writer)
                self._writers.add(other_writer)
                self._towards_process.add(writer)
                await asyncio.gather(
                    _pass_on(reader, other_writer, self._to_database), _pass_on(other_reader, writer, self._to_process)
                )
        finally:
            self._writers -= ours
            self._towards_process -= ours
            for each in ours:
                reset(each)


async def _pass_on(reader: StreamReader, writer: StreamWriter, is_open: asyncio.Event) -> None:
    while part := await reader.read(_PART):
        await is_open.wait()
        with suppress(RuntimeError):  # it was told that there is no more to come
            writer.write(part)
        await writer.drain()
    await is_open.wait()
    with suppress(RuntimeError):
        writer.write_eof()


@asynccontextmanager
async def network_to(database: int) -> AsyncGenerator[Network]:
    network = Network(database)
    async with await asyncio.start_server(network.accept, "127.0.0.1") as server:
        network.port = server.sockets[0].getsockname()[1]
        try:
            yield network
        finally:
            server.close()
            await network.leave()
