"""A peer that sends HTTP requests to the ASGI application, byte for byte, and reads JSON and streams as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Message

from tests.matrix.clients import Client, Json
from tests.matrix.peers import PATIENCE, Peer, Pending
from tests.server.wire import NAMED

_STREAM = "text/event-stream"


class Exchange:
    """One HTTP request under way."""

    def __init__(self, app: ASGIApp, verb: str, headers: Mapping[str, str], body: bytes) -> None:
        self._body: bytes | None = body
        self._gone = asyncio.Event()
        self._sent: asyncio.Queue[Message | None] = asyncio.Queue()
        self._serving = asyncio.ensure_future(app(_scope(verb, headers), self._receive, self._send))
        self._serving.add_done_callback(lambda _: self._sent.put_nowait(None))

    def hang_up(self) -> None:
        self._gone.set()

    async def head(self) -> tuple[int, dict[str, str]]:
        """Return status and headers; none if it was ended before there were any."""
        given = await self._next()
        if given is None:
            return 0, {}
        return given["status"], {name.decode().lower(): value.decode() for name, value in given["headers"]}

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes, to its end or until the client hangs up."""
        while part := await self._next():
            yield part.get("body", b"")
            if not part.get("more_body", False):
                return

    async def ended(self) -> None:
        """Wait for the application to be done with it. Raises what it raised."""
        await self._serving

    async def _next(self) -> Message | None:
        given = await self._sent.get()
        return None if self._gone.is_set() else given

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self._sent.put_nowait(message)


class OverHTTP(Peer):
    def __init__(self, client: Client, app: ASGIApp) -> None:
        super().__init__(client)
        self._app = app
        self._session: dict[str, str] = {}
        self._standing: Exchange | None = None
        self._open: dict[int, Exchange] = {}

    async def greet(self) -> None:
        """Also open the standing stream, where the version has one."""
        await super().greet()
        if not self.client.is_modern:
            self._standing = Exchange(self._app, "GET", {**self._headers(), "accept": _STREAM}, b"")
            status, _ = await self._standing.head()
            assert status == 200, status
            self.spawn(self._read(self._standing, None, is_stream=True))
            # The SDK takes the stream into use a moment after it has sent its head.
            await self.request("ping", {})

    async def cancel(self, pending: Pending) -> None:
        if self.client.is_modern:
            self._open[pending.id].hang_up()
        else:
            await super().cancel(pending)

    async def close(self) -> None:
        for exchange in (*self._open.values(), self._standing):
            if exchange:
                exchange.hang_up()
        await super().close()

    async def send(self, message: Json) -> None:
        number: int | None = message["id"] if "method" in message and "id" in message else None
        exchange = Exchange(self._app, "POST", self._headers(message), json.dumps(message).encode())
        if number is not None:
            self._open[number] = exchange
        status, headers = await exchange.head()
        assert number is not None or status == 202, f"{status} to {message}"
        if session := headers.get("mcp-session-id"):
            self._session = {"mcp-session-id": session}
        if status:
            await self._read(exchange, number, is_stream=headers.get("content-type", "").startswith(_STREAM))
        await exchange.ended()

    async def _read(self, exchange: Exchange, number: int | None, *, is_stream: bool) -> None:
        """Take what comes of a request, to its end."""
        buffer = b""
        async for part in exchange.parts():
            buffer += part
            while is_stream and b"\r\n\r\n" in buffer:
                event, buffer = buffer.split(b"\r\n\r\n", 1)
                for data in (line for line in event.splitlines() if line.startswith(b"data:")):
                    self.receive(json.loads(data.removeprefix(b"data:")), number)
        if buffer:
            self.receive(json.loads(buffer), number)

    def _headers(self, message: Mapping[str, Any] | None = None) -> dict[str, str]:
        given = {
            "host": "127.0.0.1:8000",
            "content-type": "application/json",
            "accept": f"application/json, {_STREAM}",
            "mcp-protocol-version": self.client.version,
            **self._session,
        }
        method = message.get("method") if message else None
        if message and method and self.client.is_modern:
            given["mcp-method"] = method
            if method in NAMED:
                given["mcp-name"] = message["params"][NAMED[method]]
        return given


@asynccontextmanager
async def over_http(app: ASGIApp, client: Client) -> AsyncGenerator[Peer]:
    """Send one client's requests to an application that runs."""
    peer = OverHTTP(client, app)
    await peer.greet()
    yield peer
    async with asyncio.timeout(PATIENCE):
        await peer.close()


def _scope(verb: str, headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": verb,
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8_000),
    }
