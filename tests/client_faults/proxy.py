"""A network that fails when it is told to: a proxy that knows from the bytes what a client and a server are about."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.client_faults.gate import PATIENCE

ANSWER = "answer"
"""The phase of a POST that answers a request of the server's."""
QUESTION, RESULT = b"elicitation/create", b"structuredContent"
"""What stands in an answer that asks, and in one that has a result."""
_LINGER_NOT = struct.pack("ii", 1, 0)
_HEAD_END, _LAST_CHUNK = b"\r\n\r\n", b"0\r\n\r\n"


class Cut(StrEnum):
    """Where an exchange breaks off."""

    BEFORE = "before"
    """The request is not passed on."""
    UNANSWERED = "unanswered"
    """It is passed on, the server answers, and that is not passed back."""
    MIDWAY = "midway"
    """Half of the answer is passed back."""
    UNAVAILABLE = "unavailable"
    """The request is not passed on, but answered as by a gateway that has no server behind it."""
    BAD_GATEWAY = "bad gateway"
    """It is passed on, the server answers, and a gateway says something else."""
    ENDED = "ended"
    """A stream is ended in good order, as by a gateway that has seen enough of it."""
    AFTER = "after"
    """What came is passed back, and the connection breaks before there is more."""


@dataclass
class Fault:
    """What happens to an exchange of one phase, a few times; with `is_trap`, only when the test says so."""

    phase: str
    cut: Cut
    times: int = 1
    passes: int = 0
    """How many are left alone first."""
    having: bytes = b""
    """What must stand in the answer, or in the part of it that is cut."""
    is_trap: bool = False
    count: int = 0
    _caught: asyncio.Event = field(default_factory=asyncio.Event)
    _sprung: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_over(self) -> bool:
        return self.count >= self.times

    async def strike(self) -> None:
        self.count += 1
        self._caught.set()
        if self.is_trap:
            await self._sprung.wait()

    async def caught(self) -> None:
        """Wait until an exchange has got as far."""
        async with asyncio.timeout(PATIENCE):
            await self._caught.wait()

    def spring(self) -> None:
        """Let the connection break."""
        self._sprung.set()


@dataclass(frozen=True)
class Request:
    phase: str
    raw: bytes


class Proxy:
    """Passes on one exchange per connection, so that each can be broken by itself."""

    def __init__(self) -> None:
        self.upstream = 0
        """The port of the server."""
        self.seen: Counter[str] = Counter()
        self._news = asyncio.Condition()
        self.turned_away = 0
        self.whim: Callable[[str], Cut | None] = lambda phase: None
        """What else happens to an exchange of a phase."""
        self._refusals = 0
        self._faults: list[Fault] = []
        self._open: set[StreamWriter] = set()
        self._under_way: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        # As long as somebody is bound to the port it is ours; where nobody listens, connections are refused.
        self._holder = socket.socket()
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._holder.bind(("127.0.0.1", 0))
        self.port: int = self._holder.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def fault(self, phase: str, cut: Cut, **more: Any) -> Fault:
        made = Fault(phase, cut, **more)
        self._faults.append(made)
        return made

    def trap(self, phase: str, cut: Cut, **more: Any) -> Fault:
        """Hold an exchange where it is to be cut, until the trap is sprung."""
        return self.fault(phase, cut, is_trap=True, **more)

    async def saw(self, phase: str, times: int) -> None:
        """Wait until there were so many exchanges of a phase."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: self.seen[phase] >= times)

    def turn_away(self, times: int) -> None:
        """Reset the next connections as soon as they are made."""
        self._refusals = times

    async def listen(self) -> None:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port, reuse_port=True)

    def refuse(self) -> None:
        """Do not listen any more."""
        if self._listener:
            self._listener.close()
            self._listener = None

    def cut_all(self) -> int:
        """Reset all connections; return how many there were."""
        for writer in self._open:
            reset(writer)
        return len(self._open)

    async def leave(self) -> None:
        self.refuse()
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        self._holder.close()

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self._refusals:
            self._refusals -= 1
            self.turned_away += 1
            reset(writer)
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._open.add(writer)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                request = await read_request(reader)
                async with self._news:
                    self.seen[request.phase] += 1
                    self._news.notify_all()
                if await self._exchange(request, self._fault_of(request.phase), reader, writer):
                    writer.close()
                    await writer.wait_closed()
        finally:
            self._open.discard(writer)
            reset(writer)

    def _fault_of(self, phase: str) -> Fault | None:
        for fault in self._faults:
            if fault.phase == phase and not fault.is_over:
                if fault.passes == 0:
                    return fault
                fault.passes -= 1
        cut = self.whim(phase)
        return Fault(phase, cut) if cut else None

    async def _exchange(
        self, request: Request, fault: Fault | None, reader: StreamReader, writer: StreamWriter
    ) -> bool:
        """Pass on a request and its answer; return whether all went well."""
        if fault and fault.cut in (Cut.BEFORE, Cut.UNAVAILABLE):
            await _write(writer, _passed(fault.cut, b""))
            await fault.strike()
            return fault.cut is Cut.UNAVAILABLE
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.upstream)
        try:
            server_writer.write(request.raw)
            hanging_up = asyncio.create_task(reader.read(1))
            passing = asyncio.create_task(pass_back(fault, server_reader, writer))
            try:
                waits_for = (passing,) if fault and fault.is_trap else (passing, hanging_up)
                await asyncio.wait(waits_for, return_when=asyncio.FIRST_COMPLETED)
                return passing.done() and await passing
            finally:
                for task in (hanging_up, passing):
                    task.cancel()
                await asyncio.gather(hanging_up, passing, return_exceptions=True)
        finally:
            reset(server_writer)


async def pass_back(fault: Fault | None, reader: StreamReader, writer: StreamWriter) -> bool:
    """Pass an answer back to where the fault wants it to break off; return whether there was none."""
    read = _first_part if fault and not fault.having else _next_part
    while part := await read(reader):
        if fault and not fault.is_over and fault.having in part:
            await _write(writer, _passed(fault.cut, part))
            await fault.strike()
            return fault.cut in (Cut.BAD_GATEWAY, Cut.ENDED)
        await _write(writer, part)
        read = _next_part
    return True


async def _next_part(reader: StreamReader) -> bytes:
    return await reader.read(65_536)


async def _first_part(reader: StreamReader) -> bytes:
    """Return the head of an answer, and what there is of its body."""
    part = b""
    while not part.partition(_HEAD_END)[2] and (more := await _next_part(reader)):
        part += more
    return part


def _passed(cut: Cut, part: bytes) -> bytes:
    """Return what is passed on of the part that is cut; half a body has its whole head."""
    head, end, body = part.partition(_HEAD_END) if part.startswith(b"HTTP/") else (b"", b"", part)
    match cut:
        case Cut.AFTER:
            return part
        case Cut.UNAVAILABLE:
            return _gateway(b"503 Service Unavailable")
        case Cut.BAD_GATEWAY:
            return _gateway(b"502 Bad Gateway")
        case Cut.MIDWAY:
            return head + end + body[: len(body) // 2] if body else head[: len(head) // 2]
        case Cut.ENDED:
            return (head + end if head else body) + _LAST_CHUNK
        case _:
            return b""


def _gateway(status: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Type: text/html\r\nContent-Length: 4\r\nConnection: close\r\n\r\nOops" % status


async def _write(writer: StreamWriter, part: bytes) -> None:
    writer.write(part)
    await writer.drain()


async def read_request(reader: StreamReader) -> Request:
    """Read a request that has the connection to itself."""
    head = await reader.readuntil(_HEAD_END)
    length = re.search(rb"(?im)^content-length: *(\d+)", head)
    body = await reader.readexactly(int(length[1])) if length else b""
    head = re.sub(rb"(?im)^connection:.*?\r\n", b"", head)
    return Request(_phase(head, body), head.removesuffix(b"\r\n") + b"Connection: close\r\n\r\n" + body)


def _phase(head: bytes, body: bytes) -> str:
    verb = head.partition(b" ")[0].decode()
    if verb != "POST":
        return verb
    message: dict[str, Any] = json.loads(body)
    return message.get("method", ANSWER)


def reset(writer: StreamWriter) -> None:
    """Break a connection without a word: RST instead of FIN."""
    if not writer.transport.is_closing():
        with suppress(OSError):
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        writer.transport.abort()


@asynccontextmanager
async def proxying(upstream: int) -> AsyncGenerator[Proxy]:
    proxy = Proxy()
    proxy.upstream = upstream
    await proxy.listen()
    try:
        yield proxy
    finally:
        await proxy.leave()
