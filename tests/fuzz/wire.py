"""Messages as bytes on a socket: in pieces, at odds with their own headers, pipelined, cut, or no HTTP at all."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from tests.fuzz.asgi import PATIENCE
from tests.fuzz.messages import PATH, Fuzzer, Message

_ANSWERED = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r]*\r\n((?:[^\r\n]+\r\n)*)\r\n")
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_NOT_HTTP = (
    b"",
    b"\r\n" * 50,
    b"\0" * 500,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x41" * 200,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /mcp\r\n",
    b"POST /mcp HTTP/9.9\r\nhost: 127.0.0.1\r\n\r\n",
    b"POST http://[::1 HTTP/1.1\r\nhost: x\r\n\r\n",
    b"P\xffST /mcp HTTP/1.1\r\nhost: x\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nhost 127.0.0.1\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nhost: a\r\n b\r\n\r\n",
    b"POST /mcp HTTP/1.1\nhost: 127.0.0.1\ncontent-length: 0\n\n",
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: -1\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}",
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: gzip\r\n\r\n{}",
    b"GET /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\n" + b"x: y\r\n" * 5000 + b"\r\n",
    b"POST /mcp HTTP/1.1\r\nx: " + b"y" * 200_000 + b"\r\n\r\n",
    b"POST /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
)


@dataclass(frozen=True, slots=True)
class Bytes:
    pieces: tuple[bytes, ...]
    is_whole: bool = False
    """It is a request, to its end, so that an answer is due."""
    is_reset: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    statuses: tuple[int, ...]
    text: bytes
    is_late: bool = False


def bytes_of(message: Message, *, is_chunked: bool = False) -> bytes:
    """Write a message as HTTP does."""
    lines = [f"{message.verb} {message.path} HTTP/1.1".encode()]
    lines += [name + b": " + re.sub(rb"[\r\n\0]", b" ", value) for name, value in message.headers]
    lines.append(b"connection: close")
    if is_chunked:
        body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in message.chunks if chunk) + b"0\r\n\r\n"
        lines.append(b"transfer-encoding: chunked")
    else:
        body = message.body
        lines.append(b"content-length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def some_bytes(fuzzer: Fuzzer) -> Bytes:
    chance, kind = fuzzer.chance, fuzzer.chance.random()
    if kind < 0.08:
        return Bytes(_pieces(chance, chance.choice(_NOT_HTTP)), is_reset=chance.random() < 0.5)
    message = fuzzer.message()
    data = bytes_of(message, is_chunked=chance.random() < 0.3)
    if kind < 0.2 or message.is_cut:
        at = chance.randrange(len(data))
        return Bytes(_pieces(chance, data[:at]), is_reset=chance.random() < 0.5)
    if kind < 0.3:
        flipped = bytearray(data)
        for _ in range(chance.choice((1, 3, 10))):
            flipped[chance.randrange(len(flipped))] = chance.randrange(256)
        return Bytes(_pieces(chance, bytes(flipped)))
    if kind < 0.34:
        return Bytes(_pieces(chance, data.replace(b"content-length: ", b"content-length: 1", 1)))
    if kind < 0.38:
        return Bytes(_pieces(chance, data + bytes_of(fuzzer.message())))
    # The answer to what is too long, or not for the endpoint, comes before its end, and is lost on who only writes.
    is_read = message.verb == "POST" and message.path == PATH and len(data) < 1_000_000
    return Bytes(_pieces(chance, data), is_whole=is_read)


def _pieces(chance: Random, data: bytes) -> tuple[bytes, ...]:
    if chance.random() < 0.6 or len(data) < 2:
        return (data,)
    cuts = sorted(chance.randrange(len(data)) for _ in range(chance.choice((1, 3, 20))))
    return tuple(data[start:end] for start, end in zip((0, *cuts), (*cuts, len(data)), strict=True))


async def exchange(port: int, given: Bytes) -> Reply:
    """Send on a connection of its own and return the answer, if there is to be one; else look whether there is."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    if given.is_reset:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    heard = bytearray()
    is_late = False
    hearing = asyncio.create_task(_hear(reader, heard))
    try:
        # What is wrong with a head is answered before its body was read; who then writes on must have heard it.
        with suppress(ConnectionError):
            for piece in given.pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        with suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE if given.is_whole else 0.02):
                await hearing
    except TimeoutError:
        is_late = given.is_whole
    finally:
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    statuses = tuple(int(found[1]) for found in _ANSWERED.finditer(heard))
    return Reply(statuses, bytes(heard), is_late)


async def _hear(reader: asyncio.StreamReader, heard: bytearray) -> None:
    """Read to the end of an answer, or of the connection; of a stream, the beginning."""
    while part := await reader.read(65_536):
        heard += part
        if (found := _ANSWERED.search(heard)) and found[1] != b"100":
            length = _LENGTH.search(found[2])
            if b"event-stream" in found[2] or (length and len(heard) - found.end() >= int(length[1])):
                return
