"""The same clients over HTTP: each request a POST to the ASGI application, its answer a stream that may break off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp

from tests.matrix.over_http import Exchange
from tests.races.wire import PATIENCE, Call, Client, Json, Kind, Question

_STREAM = "text/event-stream"


class OverHTTP(Client):
    def __init__(self, kind: Kind, app: ASGIApp) -> None:
        super().__init__(kind)
        self._app = app
        self._session: dict[str, str] = {}
        self._open: dict[int, Exchange] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    async def send(self, message: Json) -> None:
        exchange = Exchange(self._app, "POST", self._headers(), json.dumps(message).encode())
        if "method" not in message or "id" not in message:
            status, _ = await exchange.head()
            assert status == 202, status
            await exchange.ended()
            return
        self._open[message["id"]] = exchange
        reading = asyncio.create_task(self._read(message["id"], exchange))
        self._under_way.add(reading)
        reading.add_done_callback(self._under_way.discard)

    def hang_up(self, call: Call) -> None:
        """Break off the connection of one request."""
        self._open[call.id].hang_up()

    def has_ended(self, call: Call) -> bool:
        """Whether the server has closed the stream of a request."""
        return call.id not in self._open

    @property
    def open_questions(self) -> list[Question]:
        """Those whose stream is still there to be answered for."""
        return [question for question in super().open_questions if question.asker in self._open]

    async def end_session(self) -> None:
        exchange = Exchange(self._app, "DELETE", self._headers(), b"")
        assert (await exchange.head())[0] == 200
        await exchange.ended()

    async def leave(self) -> None:
        for exchange in self._open.values():
            exchange.hang_up()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*self._under_way)

    async def _read(self, number: int, exchange: Exchange) -> None:
        _, headers = await exchange.head()
        if session := headers.get("mcp-session-id"):
            self._session = {"mcp-session-id": session}
        buffer, is_stream = b"", headers.get("content-type", "").startswith(_STREAM)
        async for part in exchange.parts():
            buffer += part
            while is_stream and b"\r\n\r\n" in buffer:
                event, buffer = buffer.split(b"\r\n\r\n", 1)
                for data in (line for line in event.splitlines() if line.startswith(b"data:")):
                    self.take(json.loads(data.removeprefix(b"data:")), number)
        if buffer:
            self.take(json.loads(buffer), number)
        await exchange.ended()
        del self._open[number]

    def _headers(self) -> Mapping[str, str]:
        return {
            "host": "127.0.0.1:8000",
            "content-type": "application/json",
            "accept": f"application/json, {_STREAM}",
            "mcp-protocol-version": self.kind.version,
            **self._session,
        }


@asynccontextmanager
async def over_http(app: Any, kind: Kind) -> AsyncGenerator[OverHTTP]:
    """Let one client send its requests to an application that runs."""
    client = OverHTTP(kind, app)
    await client.greet()
    yield client
    await client.leave()
