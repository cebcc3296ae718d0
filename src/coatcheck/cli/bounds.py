"""Uvicorn's HTTP protocol, with an end to requests that do not come to one: slow to arrive, or with endless headers."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_PHRASES = {
    HTTPStatus.REQUEST_TIMEOUT: "The request took too long to arrive; send it again, at once.",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "The headers of the request are too large; send fewer or shorter ones.",
}
_AROUND = len(b": \r\n")


class BoundedProtocol(HttpToolsProtocol):
    """What a peer has to keep to, whoever it is: it comes before authentication."""

    head_seconds: ClassVar[float] = 30.0
    """For a request's headers, and before the first request of a connection."""
    body_seconds: ClassVar[float] = 30.0
    """For its body, and a second more for each `body_rate` bytes that have come."""
    body_rate: ClassVar[int] = 16_384
    most_head_bytes: ClassVar[int] = 65_536

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._is_in_head, self._is_whole = True, False
        self._messages = self._head_bytes = self._body_bytes = 0
        self._since = self.loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._look_no_more()

    def data_received(self, data: bytes) -> None:
        before, was_whole = self._messages, self._is_whole
        super().data_received(data)
        if was_whole and self._messages == before:
            self._begin_head()  # with blank lines, which are allowed, but end uvicorn's own look at the clock
        if self._is_whole or self.transport.is_closing():
            self._look_no_more()
            return
        if self._is_in_head and self._messages == before:
            self._head_bytes += len(data)
        if self._head_bytes > self.most_head_bytes:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._timer is None:
            self._look_later()

    def _begin_head(self) -> None:
        self._is_in_head, self._is_whole = True, False
        self._head_bytes = self._body_bytes = 0
        self._since = self.loop.time()

    # What the parser says

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begin_head()
        self._messages += 1

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + _AROUND for name, value in self.headers)
        if size > self.most_head_bytes:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            raise _Refused
        super().on_headers_complete()
        self._is_in_head, self._head_bytes = False, 0
        self._since = self.loop.time()

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._body_bytes += len(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_whole = True

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():  # else it was refused already, and why
            super().send_400_response(msg)

    # Looking at the clock

    def _left(self) -> float:
        """Return for how many seconds it may go on."""
        allowed = self.head_seconds if self._is_in_head else self.body_seconds + self._body_bytes / self.body_rate
        return self._since + allowed - self.loop.time()

    def _look_later(self) -> None:
        self._look_no_more()
        self._timer = self.loop.call_later(max(self._left(), 0.0), self._look)

    def _look_no_more(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self.flow.read_paused:
            self._since = self.loop.time()  # it is not the peer who keeps us waiting
        if self._left() > 0:
            self._look_later()
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def _refuse(self, status: HTTPStatus) -> None:
        """Say why and hang up; if an answer is under way or was given, just hang up."""
        self._look_no_more()
        last: Any = self.cycle  # None until there is a request
        is_free = last is None or (last.response_complete if self._is_in_head else not last.response_started)
        if is_free and self._messages and not self.pipeline and not self.transport.is_closing():
            words = _PHRASES[status].encode()
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: text/plain\r\nconnection: close\r\n"
            self.transport.write(head.encode() + b"content-length: %d\r\n\r\n" % len(words) + words)
        self.transport.close()


class _Refused(Exception):
    """Tells the parser to stop."""
