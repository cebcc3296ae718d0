"""The servers of the matrix and their clients: each is made when a cell needs it, and shared by the rest."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from tests.matrix import server
from tests.matrix.clients import Client
from tests.matrix.over_http import over_http
from tests.matrix.peers import Peer
from tests.matrix.pipes import in_memory, on_stdio
from tests.matrix.table import Transport
from tests.server.asgi import running

pytest.register_assert_rewrite("tests.matrix.exchanges")


class Network:
    """Who is connected to what."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._apps: dict[tuple[bool, str], tuple[MCPServer[Any], Any]] = {}
        self._peers: dict[tuple[str, str, bool], Peer] = {}

    async def peer(self, client: Client, transport: Transport, *, is_twin: bool = False) -> Peer:
        """Return this client of the server, or of its twin.

        The twin is not there on stdio: the SDK serves that as it serves memory.
        """
        if is_twin and transport == "stdio":
            transport = "memory"
        key = (client.name, transport, is_twin)
        if key not in self._peers:
            self._peers[key] = await self._stack.enter_async_context(await self._connect(client, transport, is_twin))
        return self._peers[key]

    async def _connect(self, client: Client, transport: Transport, is_twin: bool) -> AbstractAsyncContextManager[Peer]:
        if transport == "stdio":
            return on_stdio(client)
        made, app = await self._served(transport, is_twin)
        return in_memory(made, client) if transport == "memory" else over_http(app, client)

    async def _served(self, transport: Transport, is_twin: bool) -> tuple[MCPServer[Any], Any]:
        if (is_twin, transport) not in self._apps:
            make: Callable[[], MCPServer[Any]] = server.sdk if is_twin else server.tasks
            made = make()
            app = made.streamable_http_app(json_response=transport == "http-json")
            await self._stack.enter_async_context(running(app))
            self._apps[is_twin, transport] = made, app
        return self._apps[is_twin, transport]


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="package", autouse=True)
def no_settings_from_outside() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("COATCHECK_STORE", "COATCHECK_CONCURRENCY", "COATCHECK_KEY"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="package", autouse=True)
def failures_are_not_logged() -> Generator[None]:
    """Tools that raise are meant to; the SDK draws their tracebacks, which takes longer than the rest of a cell."""
    loggers = [logging.getLogger(name) for name in ("mcp", "coatcheck")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture(scope="package")
async def network() -> AsyncGenerator[Network]:
    async with AsyncExitStack() as stack:
        yield Network(stack)
