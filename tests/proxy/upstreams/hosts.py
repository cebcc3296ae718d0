"""Servers behind the proxy: served over HTTP in this process, stopped and started again at the same port."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.types import ASGIApp

from coatcheck.proxy.config import ServerEntry, server_entry

PATIENCE = 15
"""Seconds to wait for what should come soon, on however busy a machine."""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield  # they are for the test runner


class Host:
    """A place where a server is, or is not. `make` makes a new application for each start."""

    def __init__(self, make: Callable[[], ASGIApp]) -> None:
        self._make = make
        self._socket = _bound(0)
        self.port: int = self._socket.getsockname()[1]
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def entry(self, name: str = "up", **more: Any) -> ServerEntry:
        return server_entry(name, {"url": self.url, **more})

    async def start(self) -> None:
        if self._socket.fileno() < 0:
            self._socket = _bound(self.port)
        config = uvicorn.Config(self._make(), log_config=None, http="httptools", ws="none", timeout_graceful_shutdown=0)
        self._server = _Server(config)
        self._socket.listen(128)
        self._serving = asyncio.create_task(self._server.serve([self._socket]))

    async def stop(self) -> None:
        """End all connections at once. Nobody listens afterwards."""
        server, serving = self._server, self._serving
        self._server = self._serving = None
        if server and serving:
            for connection in server.server_state.connections:
                connection.transport.abort()
            for task in server.server_state.tasks:
                task.cancel()
            server.should_exit = True
            async with asyncio.timeout(PATIENCE):
                await serving
        self._socket.close()


@asynccontextmanager
async def turned_away(host: Host) -> AsyncGenerator[Callable[[int], Awaitable[None]]]:
    """Send all visitors of a host that was stopped away; give a way to wait until so many have come."""
    visits = asyncio.Condition()
    seen = 0

    async def send_away(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        writer.transport.abort()
        async with visits:
            seen += 1
            visits.notify_all()

    async def came(number: int) -> None:
        async with asyncio.timeout(PATIENCE), visits:
            await visits.wait_for(lambda: seen >= number)

    async with await asyncio.start_server(send_away, "127.0.0.1", host.port, reuse_address=True):
        yield came


@asynccontextmanager
async def hosted(make: Callable[[], ASGIApp]) -> AsyncGenerator[Host]:
    host = Host(make)
    await host.start()
    try:
        yield host
    finally:
        await host.stop()


@asynccontextmanager
async def served(server: MCPServer[Any]) -> AsyncGenerator[Host]:
    """Serve a server for as long as the test needs it."""
    async with hosted(server.streamable_http_app) as host:
        yield host


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound
