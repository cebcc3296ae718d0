"""HTTP/1.1 with nothing between us and the socket: for a proxy, which does little else than to pass requests on."""

from __future__ import annotations

import asyncio
import socket
import ssl
import urllib.request
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import httptools
import httpx2

from coatcheck.client.http import tls_context, without_numbers

_CONNECT_SECONDS = 15.0
_MOST_IDLE = 20


class Broken(Exception):
    """There is no answer. `was_sent`: the server may have carried out the request all the same."""

    def __init__(self, reason: str, *, was_sent: bool) -> None:
        super().__init__(reason)
        self.was_sent = was_sent


class Reply:
    """An answer: a body, or events as they come."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self.status, self.headers, self.is_stream = 0, dict[str, str](), False
        self.is_complete = self.is_broken = False
        self._chunks: list[bytes] = []
        self._arrived = asyncio.Event()
        self._leaving: asyncio.TimerHandle | None = None

    @property
    def body(self) -> bytes:
        """All of it, once it is complete."""
        return b"".join(self._chunks)

    @property
    def ends_with_connection(self) -> bool:
        """Whether nothing else says how long it is."""
        return self.status >= 200 and not self.headers.keys() & {"content-length", "transfer-encoding"}

    async def events(self) -> AsyncIterator[bytes]:
        """Give the data of each event.

        Raises:
            Broken: The stream ended before its end.
        """
        data: list[bytes] = []
        rest = b""
        while chunk := await self._chunk():
            *lines, rest = (rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    data.append(line[5:].removeprefix(b" "))
                elif not line and data:
                    yield b"\n".join(data)
                    data = []

    def leave(self, seconds: float) -> None:
        """Want no more of it; drop it, unless it comes to its end by then, and the connection can be used again."""
        if not self.is_complete:
            self._leaving = asyncio.get_running_loop().call_later(seconds, self.drop)

    def drop(self) -> None:
        """Want no more of it, and nothing else of its connection."""
        if not self.is_complete:
            self._line.drop()

    def add(self, data: bytes) -> None:
        self._chunks.append(data)
        self._arrived.set()

    def end(self, *, is_broken: bool = False) -> None:
        self.is_complete, self.is_broken = not is_broken, is_broken
        if self._leaving:
            self._leaving.cancel()
        self._arrived.set()

    async def _chunk(self) -> bytes:
        """Return what has come since the last time; nothing, if it has come to its end."""
        while not self._chunks and not self.is_complete:
            if self.is_broken:
                raise Broken("the connection broke", was_sent=True)
            self._arrived.clear()
            await self._arrived.wait()
        chunks, self._chunks = self._chunks, []
        return b"".join(chunks)


class LeanHTTP:
    """Posts to one URL, over connections that are kept."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parsed = httpx2.URL(url)
        is_secure = parsed.scheme == "https"
        self._host, self._port = parsed.host, parsed.port or (443 if is_secure else 80)
        self._ssl = tls_context() if is_secure else None
        own = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        said = own | {name.lower(): value for name, value in headers.items()}
        line = b"POST %b HTTP/1.1\r\nhost: %b\r\n" % (parsed.raw_path, parsed.netloc)
        self._head = line + _written(said)
        self.where = f"{self._host}:{self._port}"
        self._idle: list[_Line] = []
        self._lines: set[_Line] = set()
        self._is_closed = False

    async def post(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Send a body and return the answer.

        Raises:
            Broken: There is none.
        """
        sent = b"%b%bcontent-length: %d\r\n\r\n%b" % (self._head, _written(headers), len(body), body)
        line = await self._take()
        answer = line.send(sent)
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.cancelled():
                line.drop()
            elif answer.exception() is None:  # it came in the same moment
                answer.result().drop()
            raise

    def close(self) -> None:
        self._is_closed = True
        for line in list(self._lines):
            line.drop()

    async def _take(self) -> _Line:
        while self._idle:
            line = self._idle.pop()
            if line.is_open:
                return line
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, line = await loop.create_connection(lambda: _Line(self), self._host, self._port, ssl=self._ssl)
        except TimeoutError:
            raise Broken(f"{self.where} does not answer", was_sent=False) from None
        except (OSError, UnicodeError) as error:
            raise Broken(self._reason(error), was_sent=False) from error
        self._lines.add(line)
        if self._is_closed:
            line.drop()
            raise Broken(f"the connection to {self.where} is closed", was_sent=False)
        return line

    def _reason(self, error: Exception) -> str:
        match error:
            case ssl.SSLError():
                return f"no secure connection to {self.where} ({without_numbers(str(error))})"
            case socket.gaierror() | UnicodeError():
                return f"there is no host {self._host!r}"
            case _:
                return f"{self.where} refuses connections"

    def put_back(self, line: _Line) -> None:
        if len(self._idle) < _MOST_IDLE:
            self._idle.append(line)
        else:
            line.drop()

    def forget(self, line: _Line) -> None:
        self._lines.discard(line)
        if line in self._idle:
            self._idle.remove(line)


def is_reachable_directly(url: str) -> bool:
    """Whether nothing stands between us and a URL, and it says nothing of who we are."""
    parsed = httpx2.URL(url)
    proxies = urllib.request.getproxies()
    has_proxy = (parsed.scheme in proxies or "all" in proxies) and not urllib.request.proxy_bypass(parsed.host)
    return not parsed.userinfo and not has_proxy


def _written(headers: Mapping[str, str]) -> bytes:
    if any("\n" in text or "\r" in text for pair in headers.items() for text in pair):
        raise ValueError("A header is one line")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")


class _Line(asyncio.Protocol):
    """One connection, with one request at a time on it."""

    def __init__(self, pool: LeanHTTP) -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._reply: Reply | None = None
        self._answer: asyncio.Future[Reply] | None = None
        self.is_open = False

    def send(self, data: bytes) -> asyncio.Future[Reply]:
        self._reply = Reply(self)
        self._parser = httptools.HttpResponseParser(self)
        self._answer = asyncio.get_running_loop().create_future()
        if self._transport is None or not self.is_open:
            self._answer.set_exception(Broken(f"the connection to {self._pool.where} is closed", was_sent=False))
        else:
            self._transport.write(data)
        return self._answer

    def drop(self) -> None:
        self.is_open = False
        self._pool.forget(self)
        if self._transport:
            self._transport.abort()

    # For asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self.is_open = cast("asyncio.Transport", transport), True

    def data_received(self, data: bytes) -> None:
        if self._reply is None:  # nobody asked
            self.drop()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"{self._pool.where} does not speak HTTP ({error})")
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._pool.forget(self)
        if exc is None and self._reply and self._reply.ends_with_connection:
            self.on_message_complete()
        self._fail(f"the connection to {self._pool.where} broke{f' ({exc})' if exc else ''}")

    def _fail(self, reason: str) -> None:
        if self._answer and not self._answer.done():
            self._answer.set_exception(Broken(reason, was_sent=True))
        if self._reply:
            self._reply.end(is_broken=True)
            self._reply = None

    # For the parser

    def on_message_begin(self) -> None:
        if self._reply is None:  # nobody asked
            self.drop()
        else:
            self._reply.headers.clear()  # those of a hint that came before

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reply:
            self._reply.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if (reply := self._reply) is None:
            return
        reply.status = self._parser.get_status_code()
        reply.is_stream = reply.headers.get("content-type", "").lower().startswith("text/event-stream")
        if reply.is_stream and 200 <= reply.status < 300:
            self._resolve()

    def on_body(self, data: bytes) -> None:
        if self._reply:
            self._reply.add(data)

    def on_message_complete(self) -> None:
        if self._reply is None:
            return
        if self._reply.status < 200:  # there is more to come
            return
        self._reply.end()
        self._resolve()
        self._reply = None
        if self.is_open and self._parser.should_keep_alive():
            self._pool.put_back(self)
        else:
            self.drop()

    def _resolve(self) -> None:
        if self._answer and self._reply and not self._answer.done():
            self._answer.set_result(self._reply)
