"""Those who serve a server: who leaves while it starts, and who comes while it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from coatcheck.server import TaskServer

pytestmark = pytest.mark.anyio

PATIENCE = 20
"""Seconds to wait for what should come at once."""


class Slow:
    """An author's lifespan that goes on when it is told to."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.said: list[str] = []

    async def pause(self) -> None:
        self.begun.set()
        await self.go_on.wait()

    @asynccontextmanager
    async def at_the_start(self, _: MCPServer[Any]) -> AsyncGenerator[None]:
        try:
            await self.pause()
        except asyncio.CancelledError:
            self.said.append("cancelled")
            raise
        self.said.append("open")
        yield

    @asynccontextmanager
    async def at_the_end(self, _: MCPServer[Any]) -> AsyncGenerator[None]:
        self.said.append("open")
        yield
        await self.pause()
        self.said.append("closed")


@pytest.fixture
def slow() -> Slow:
    return Slow()


async def test_a_start_that_nobody_waits_for_any_more_is_given_up(slow: Slow) -> None:
    server = TaskServer("test", store="memory://", lifespan=slow.at_the_start)

    async def serve() -> None:
        async with server.tasks.lifespan(server):
            pass

    guest = asyncio.create_task(serve())
    await slow.begun.wait()
    guest.cancel()
    await asyncio.wait((guest,), timeout=PATIENCE)
    assert (guest.done(), slow.said) == (True, ["cancelled"])
    slow.go_on.set()
    async with asyncio.timeout(PATIENCE):
        await serve()
    assert (server.tasks.is_running, slow.said) == (False, ["cancelled", "open"])


async def test_a_start_that_somebody_else_waits_for_goes_on(slow: Slow) -> None:
    server = TaskServer("test", store="memory://", lifespan=slow.at_the_start)

    async def serve() -> bool:
        async with server.tasks.lifespan(server):
            return server.tasks.is_running

    first, second = asyncio.create_task(serve()), asyncio.create_task(serve())
    await slow.begun.wait()
    first.cancel()
    await asyncio.wait((first,), timeout=PATIENCE)
    assert first.cancelled()
    slow.go_on.set()
    async with asyncio.timeout(PATIENCE):
        assert await second


async def test_who_comes_while_the_last_one_leaves_is_served_once_everything_is_closed(slow: Slow) -> None:
    server = TaskServer("test", store="memory://", lifespan=slow.at_the_end)
    served = asyncio.Event()

    async def serve() -> None:
        async with server.tasks.lifespan(server):
            pass

    async def serve_and_stay() -> bool:
        async with server.tasks.lifespan(server):
            served.set()
            await first
            return server.tasks.is_running

    first = asyncio.create_task(serve())
    await slow.begun.wait()
    second = asyncio.create_task(serve_and_stay())
    asyncio.get_running_loop().call_soon(slow.go_on.set)  # once the second has come
    async with asyncio.timeout(PATIENCE):
        assert await second
    assert slow.said == ["open", "closed"] * 2
