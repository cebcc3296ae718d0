"""Requests that do not come to an end are ended, whoever sends them; those that take long to answer are not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from coatcheck.cli.protocol import JoiningProtocol

pytestmark = pytest.mark.anyio

PATIENCE = 30
POST = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 200\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nHost: here\r\n"
LATE = b"The request took too long to arrive; send it again, at once."
LARGE = b"The headers of the request are too large; send fewer or shorter ones."


class Hasty(JoiningProtocol):
    head_seconds = body_seconds = 0.2
    body_rate = 1
    most_head_bytes = 2000


class Program:
    """Answers with how many bytes came; at /held not before it may. Notes who hung up."""

    def __init__(self) -> None:
        self.release, self.held, self.gone = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        came, more = 0, True
        if scope["path"] == "/unread":
            await self._hold()
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.gone.set()
                return
            came, more = came + len(message.get("body", b"")), message.get("more_body", False)
        if scope["path"] == "/held":
            await self._hold()
        answer = b"%3d" % came
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(answer))]}
        )
        await send({"type": "http.response.body", "body": answer})

    async def _hold(self) -> None:
        self.held.set()
        await self.release.wait()


class Line:
    """A connection, byte for byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self) -> tuple[int, bytes]:
        """Return the status and the body of the next answer."""
        async with asyncio.timeout(PATIENCE):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            return int(head.split()[1]), await self.reader.readexactly(int(length.split()[1]))

    async def end(self) -> bytes:
        """Return what comes before the connection is closed."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    def close(self) -> None:
        self._writer.close()


class Served:
    def __init__(self, port: int, program: Program) -> None:
        self._port, self.program = port, program
        self.lines: list[Line] = []

    async def line(self, *said: bytes) -> Line:
        line = Line(*await asyncio.open_connection("127.0.0.1", self._port))
        self.lines.append(line)
        for part in said:
            await line.send(part)
        return line

    async def time_passes(self) -> None:
        """Return once somebody has been sent away for being late, and whoever was here before would have been."""
        for _ in range(2):
            assert await (await self.line(POST)).answer() == (408, LATE)


@pytest.fixture
async def served() -> AsyncGenerator[Served]:
    async with _serving() as served:
        yield served


@asynccontextmanager
async def _serving() -> AsyncGenerator[Served]:
    program = Program()
    config = uvicorn.Config(program, http=Hasty, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        running = asyncio.create_task(server.serve([bound]))
        served = Served(bound.getsockname()[1], program)
        try:
            yield served
        finally:
            program.release.set()
            for line in served.lines:
                line.close()
            server.should_exit = True
            await running


async def test_a_connection_that_says_nothing_is_closed(served: Served) -> None:
    assert await (await served.line()).end() == b""


@pytest.mark.parametrize("part", [GET, GET[:8], b"\r\n\r\nP", POST[:-1]], ids=str)
async def test_headers_that_do_not_end_are_ended(served: Served, part: bytes) -> None:
    assert await (await served.line(part)).answer() == (408, LATE)


async def test_headers_that_trickle_gain_no_time(served: Served) -> None:
    line = await served.line(GET)
    closed = asyncio.create_task(line.end())
    while not closed.done():
        with suppress(ConnectionError):
            await line.send(b"X-A: b\r\n")
        await asyncio.wait([closed], timeout=0.05)
    assert b"408 Request Timeout" in await closed


@pytest.mark.parametrize("part", [b"", b"x"], ids=str)
async def test_a_body_that_does_not_end_is_ended_and_the_application_is_told(served: Served, part: bytes) -> None:
    assert await (await served.line(POST, part)).answer() == (408, LATE)
    async with asyncio.timeout(PATIENCE):
        await served.program.gone.wait()


async def test_a_body_that_comes_at_a_fair_pace_has_more_time(served: Served) -> None:
    line = await served.line(POST, b"x" * 150)
    await served.time_passes()
    await line.send(b"x" * 50)
    assert await line.answer() == (200, b"200")


async def test_an_answer_may_take_as_long_as_it_takes(served: Served) -> None:
    line = await served.line(GET.replace(b" / ", b" /held ") + b"\r\n")
    await served.program.held.wait()
    await served.time_passes()
    served.program.release.set()
    assert await line.answer() == (200, b"  0")


async def test_a_body_is_not_late_while_nobody_reads_it(served: Served) -> None:
    body = b"x" * 200_000
    line = await served.line(b"POST /unread HTTP/1.1\r\nContent-Length: 400000\r\n\r\n", body)
    await served.program.held.wait()
    await served.time_passes()
    served.program.release.set()
    await line.send(body)
    assert await line.answer() == (200, b"400000")


async def test_a_late_request_behind_another_ends_both_and_is_not_answered_in_its_place(served: Served) -> None:
    line = await served.line(GET.replace(b" / ", b" /held ") + b"\r\n" + POST)
    assert await line.end() == b""


async def test_one_connection_may_carry_many_requests(served: Served) -> None:
    line = await served.line()
    for _ in range(3):
        await line.send(POST)
        await line.send(b"x" * 200)
        assert await line.answer() == (200, b"200")


async def test_blank_lines_do_not_keep_a_connection(served: Served) -> None:
    line = await served.line(GET + b"\r\n")
    assert await line.answer() == (200, b"  0")
    await line.send(b"\r\n")
    assert await line.answer() == (408, LATE)
    assert await line.end() == b""


@pytest.mark.parametrize(
    "large",
    [b"X-A: " + b"b" * 3000, b"X-A: b\r\n" * 400, b"X-A: " + b"b" * 100_000, b"X: \r\n" * 600],
    ids=["one", "many", "very large", "empty ones"],
)
async def test_headers_that_are_too_large_are_refused(served: Served, large: bytes) -> None:
    line = await served.line(GET + large + b"\r\n\r\n")
    assert await line.answer() == (431, LARGE)
    assert await line.end() == b""


async def test_a_header_without_end_is_refused_before_it_is_late(served: Served) -> None:
    line = await served.line(GET + b"X-A: ")
    answer = asyncio.create_task(line.answer())
    with suppress(ConnectionError):
        while not answer.done():
            await line.send(b"b" * 100)
            await asyncio.sleep(0)
    assert await answer == (431, LARGE)


async def test_a_path_that_is_too_long_is_refused(served: Served) -> None:
    assert await (await served.line(b"GET /" + b"x" * 3000 + b" HTTP/1.1\r\n\r\n")).answer() == (431, LARGE)


async def test_what_is_no_http_is_refused_as_ever(served: Served) -> None:
    assert await (await served.line(b"HELLO\r\n\r\n")).answer() == (400, b"Invalid HTTP request received.")
