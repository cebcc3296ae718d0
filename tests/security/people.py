"""People on the ASGI application, in one process: all that each was ever sent is kept, also of what does not end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message

from tests.security.callers import ACCEPT, ASKABLE, OLD, SESSION, Json, events
from tests.server.wire import ABLE, headers, message

PATIENCE = 60
TURNS = 60
"""Of the event loop, which a request that does not end is given to get where it waits."""


class UnderWay:
    """A request, and what it was answered with so far."""

    def __init__(self, app: ASGIApp, method: str, body: bytes, given: Mapping[str, str]) -> None:
        self.status, self.head, self.body = 0, dict[str, str](), b""
        self._sent = body
        self._is_read = False
        self._gone = asyncio.Event()
        sent = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given.items()]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "query_string": b"",
            "root_path": "",
            "headers": sent,
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8000),
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        if not self._is_read:
            self._is_read = True
            return {"type": "http.request", "body": self._sent, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.head = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
        self.body += message.get("body", b"")

    async def end(self) -> None:
        """Wait for the answer."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.shield(self.task)

    async def leave(self) -> None:
        """Hang up, if it has not ended."""
        self._gone.set()
        await self.end()

    def said(self) -> list[Any]:
        """Return the messages of the answer, as they are read; what is no JSON is returned as text."""
        if "event-stream" in self.head.get("content-type", ""):
            return list(events(self.body.decode().splitlines()))
        try:
            return [json.loads(self.body)] if self.body else []
        except ValueError:
            return [self.body.decode(errors="replace")]


@dataclass
class Person:
    """Somebody with a token, or in a session, or neither. Who shares an identity is one to the server."""

    app: ASGIApp
    identity: str
    generation: str
    token: str | None = None
    session: str | None = None
    sent: str = ""
    """All it ever said, as far as its secrets go."""
    requests: list[UnderWay] = field(default_factory=list[UnderWay])
    _last: int = 0

    @property
    def is_older(self) -> bool:
        return self.generation == OLD

    async def begin(self) -> None:
        if not self.is_older:
            return
        hello = {"protocolVersion": OLD, "capabilities": ASKABLE, "clientInfo": {"name": "test", "version": "1"}}
        begun = await self.ask("initialize", hello)
        self.session = begun.head[SESSION]
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, is_ending=True)

    async def ask(self, method: str, params: Json, *, knows_tasks: bool = True, is_ending: bool = True) -> UnderWay:
        """Send a request; `is_ending`: it is answered, whatever happens."""
        self._last += 1
        if self.is_older:
            body: Json = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        else:
            body = message(method, params, ABLE if knows_tasks else {}, self._last)
        return await self._post(body, is_ending=is_ending)

    async def listen_in(self) -> UnderWay:
        """Open the stream of a session on which servers say what they like."""
        given = {**self._headers({}), "accept": "text/event-stream"}
        return await self._send("GET", b"", given, is_ending=False)

    async def _post(self, body: Json, *, is_ending: bool) -> UnderWay:
        return await self._send("POST", json.dumps(body).encode(), self._headers(body), is_ending=is_ending)

    async def _send(self, method: str, body: bytes, given: Mapping[str, str], *, is_ending: bool) -> UnderWay:
        self.sent += body.decode()
        under_way = UnderWay(self.app, method, body, given)
        self.requests.append(under_way)
        if is_ending:
            await under_way.end()
        else:
            await turns()
        return under_way

    def _headers(self, body: Json) -> dict[str, str]:
        own = {"authorization": f"Bearer {self.token}"} if self.token else {}
        if not self.is_older:
            return {**dict(headers(body)), **own}
        given = {"host": "127.0.0.1:8000", "content-type": "application/json", "accept": ACCEPT}
        in_session = {SESSION: self.session, "mcp-protocol-version": OLD} if self.session else {}
        return {**given, **in_session, **own}

    def heard(self) -> str:
        """Return all it was told: heads, and messages as they are read, so that nothing is hidden by an escape."""
        return "\n".join(
            f"{under_way.status} {under_way.head} {json.dumps(under_way.said(), ensure_ascii=False)}"
            for under_way in self.requests
        )


async def turns(count: int = TURNS) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def part(people: Sequence[Person]) -> None:
    """Hang up on everything that has not ended."""
    for person in people:
        for under_way in person.requests:
            await under_way.leave()
