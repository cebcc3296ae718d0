"""A proxy that is served over HTTP in this process, a server behind it, and callers who know their way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from starlette.types import ASGIApp

from coatcheck.proxy.gateway import Gateway
from coatcheck.proxy.settings import ProxySettings
from coatcheck.proxy.transparent.calls import Calls
from coatcheck.server.http.app import http_app
from tests.proxy.quick.callers import Caller
from tests.proxy.upstreams.hosts import PATIENCE, hosted
from tests.proxy.upstreams.puppet import NEWER, OLDER, Exchange, Json, Puppet, text

GENERATIONS = (OLDER, NEWER)
Meet = Callable[..., Awaitable[Caller]]
"""Has a new caller call once, after which its calls may be quick."""
Serve = Callable[..., Awaitable[ASGIApp]]


class LongWay:
    """Counts the calls that were left to the SDK."""

    def __init__(self) -> None:
        self.calls = 0
        self._news = asyncio.Event()

    def took(self) -> None:
        self.calls += 1
        self._news.set()

    async def until(self, calls: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.calls < calls:
                self._news.clear()
                await self._news.wait()


@pytest.fixture(autouse=True)
def long_way(monkeypatch: pytest.MonkeyPatch) -> LongWay:
    seen, call = LongWay(), Calls.call

    async def counted(self: Calls, *args: Any) -> Any:
        seen.took()
        return await call(self, *args)

    monkeypatch.setattr(Calls, "call", counted)
    return seen


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every call that ends be a quick one, on however busy a machine."""
    monkeypatch.setattr("coatcheck.proxy.quick.calls._QUICK_SECONDS", float(PATIENCE))


both_servers = pytest.mark.parametrize("puppet", GENERATIONS, ids=["server-2025", "server-2026"], indirect=True)


@pytest.fixture
def puppet(request: pytest.FixtureRequest) -> Puppet:
    """A server of the generation a test wants."""
    puppet = Puppet((getattr(request, "param", NEWER),), logging={})

    async def echo(exchange: Exchange) -> Json:
        return text(exchange.arguments["word"])

    puppet.tools["echo"] = echo
    return puppet


@pytest.fixture(params=GENERATIONS, ids=["client-2025", "client-2026"])
def version(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def serve(puppet: Puppet) -> AsyncGenerator[Serve]:
    """Serve a proxy with settings of a test's own."""
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(hosted(lambda: puppet))

        async def serve(**settings: Any) -> ASGIApp:
            gateway = Gateway({"up": host.entry("up")}, store="memory://", settings=ProxySettings(**settings))
            app = http_app(gateway, gateway.tasks)
            await stack.enter_async_context(app.router.lifespan_context(app))
            return app

        yield serve


@pytest.fixture
async def app(serve: Serve) -> ASGIApp:
    return await serve()


@pytest.fixture
def meet(app: ASGIApp, puppet: Puppet, long_way: LongWay) -> Meet:
    async def meet(version: str, **caller: Any) -> Caller:
        return await met(app, puppet, long_way, version, **caller)

    return meet


async def met(app: ASGIApp, puppet: Puppet, long_way: LongWay, version: str, **caller: Any) -> Caller:
    made = await Caller(app, version, **caller).greet()
    async with asyncio.timeout(PATIENCE):
        while (await made.call("echo", is_long=True, word="hello")).result.get("content") != text("hello")["content"]:
            pass  # a proxy of little patience has made a task of it, while it connected
    puppet.sent.clear()
    long_way.calls = 0
    return made


def slow(puppet: Puppet, name: str = "slow") -> asyncio.Event:
    """Give a server a tool that ends when the event is set."""
    go_on = asyncio.Event()

    async def work(exchange: Exchange) -> Json:
        await go_on.wait()
        return text("done")

    puppet.tools[name] = work
    return go_on
