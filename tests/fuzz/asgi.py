"""Hands messages straight to an ASGI application, as a server would, and keeps what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Scope
from starlette.types import Message as Event

from tests.fuzz.messages import Message

PATIENCE = 60
"""Seconds after which an answer will never come, on however busy a machine."""
_LINGER = 0.003
"""Seconds a client keeps a stream open after it last heard something."""


@dataclass
class Answer:
    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    body: bytes = b""
    is_stream: bool = False
    is_late: bool = False
    raised: BaseException | None = None

    def __str__(self) -> str:
        return f"{self.status} {self.headers} {self.body[:1500]!r} raised={self.raised!r} late={self.is_late}"


class Exchange:
    """One request and what comes of it. A stream is left as soon as it falls silent."""

    def __init__(self, message: Message, patience: float = PATIENCE) -> None:
        self.message, self.answer = message, Answer()
        self._patience = patience
        self._events = _events(message)
        self._gone = asyncio.Event()
        self._leaving: asyncio.TimerHandle | None = None
        if message.is_cut:
            self._gone.set()

    async def run(self, app: ASGIApp) -> Answer:
        try:
            async with asyncio.timeout(self._patience):
                await app(_scope(self.message), self._receive, self._send)
        except TimeoutError:
            self.answer.is_late = True
        except Exception as error:
            self.answer.raised = error
        finally:
            if self._leaving:
                self._leaving.cancel()
        return self.answer

    def leave(self) -> None:
        """Let the application see that the client is gone."""
        self._gone.set()

    async def _receive(self) -> Event:
        for event in self._events:
            return event
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            self.answer.status = event["status"]
            self.answer.headers = dict(event["headers"])
            self.answer.is_stream = self.answer.headers.get(b"content-type", b"").startswith(b"text/event-stream")
        elif event["type"] == "http.response.body":
            self.answer.body += event.get("body", b"")
        self._heard(event.get("body", b""))

    def _heard(self, part: bytes) -> None:
        if self.answer.is_stream:
            if self._leaving:
                self._leaving.cancel()
            self._leaving = asyncio.get_running_loop().call_later(_LINGER, self.leave)


async def send(app: ASGIApp, message: Message) -> Answer:
    return await Exchange(message).run(app)


def _events(message: Message) -> Iterator[Event]:
    last = len(message.chunks) - 1
    for number, chunk in enumerate(message.chunks):
        yield {"type": "http.request", "body": chunk, "more_body": number < last or message.is_cut}


def _scope(message: Message) -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": message.verb,
        "scheme": "http",
        "path": message.path,
        "raw_path": message.path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": list(message.headers),
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8_000),
        "state": {},
    }
