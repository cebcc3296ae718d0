"""Servers that say what a test wants, a proxy in front of them, and clients of both generations, all in one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from coatcheck.proxy.config import ServerEntry
from coatcheck.proxy.gateway import Gateway
from coatcheck.proxy.settings import ProxySettings
from coatcheck.proxy.upstreams import upstream as upstream_module
from coatcheck.server.http.app import http_app
from tests.proxy.upstreams.conftest import SOON, leftovers
from tests.proxy.upstreams.hosts import Host, hosted
from tests.proxy.upstreams.puppet import NEWER, OLDER, Exchange, Json, Puppet, text
from tests.sdk.peer import Client, Peer
from tests.sdk.transports import another, on_streams

GENERATIONS = (OLDER, NEWER)
TASKS: Json = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
Connect = Callable[..., AbstractAsyncContextManager[Peer]]
"""Connects a client of a version to a proxy. What else is said of it is said of `tests.sdk.peer.Client`."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have lost connections be made again soon."""
    monkeypatch.setattr(upstream_module, "FOR_HTTP", SOON)
    monkeypatch.setattr(upstream_module, "FOR_PROCESSES", SOON)


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncGenerator[None]:
    before = asyncio.all_tasks()
    yield
    assert leftovers(before) == []


@pytest.fixture(params=GENERATIONS, ids=["server-2025", "server-2026"])
def puppet(request: pytest.FixtureRequest) -> Puppet:
    """A server of either generation that has one of everything."""
    return make_puppet(request.param)


def make_puppet(*versions: str) -> Puppet:
    lists: Json = {"listChanged": True}
    resources: Json = {**lists, "subscribe": True}
    puppet = Puppet(versions, resources=resources, prompts=lists, completions={}, logging={})
    puppet.tools["echo"] = echo
    puppet.lists["resources"] = [{"uri": "mem://one", "name": "one", "mimeType": "text/plain"}]
    puppet.lists["resourceTemplates"] = [{"uriTemplate": "mem://{number}/x", "name": "numbered"}]
    puppet.lists["prompts"] = [{"name": "greet", "arguments": [{"name": "whom"}]}]
    return puppet


async def echo(exchange: Exchange) -> Json:
    return text(exchange.arguments["word"])


class Bench:
    """Puts servers up and proxies in front of them."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.hosts: dict[str, Host] = {}

    async def serve(self, name: str, puppet: Puppet) -> Host:
        host = self.hosts[name] = await self._stack.enter_async_context(hosted(lambda: puppet))
        return host

    def proxy(self, *, store: str = "memory://", entry: Mapping[str, Any] | None = None, **settings: Any) -> Gateway:
        """Return a proxy in front of all servers that are up."""
        entries: dict[str, ServerEntry] = {name: host.entry(name, **(entry or {})) for name, host in self.hosts.items()}
        return Gateway(entries, store=store, settings=ProxySettings(**settings))


@pytest.fixture
async def bench() -> AsyncGenerator[Bench]:
    async with AsyncExitStack() as stack:
        yield Bench(stack)


@pytest.fixture
async def gateway(bench: Bench, puppet: Puppet) -> Gateway:
    """A proxy in front of one server, `up`."""
    await bench.serve("up", puppet)
    return bench.proxy()


@pytest.fixture(params=GENERATIONS, ids=["client-2025", "client-2026"])
def version(request: pytest.FixtureRequest) -> str:
    return request.param


@asynccontextmanager
async def in_memory(gateway: Gateway, version: str, **client: Any) -> AsyncGenerator[Peer]:
    async with on_streams(gateway, Client(version, **client)) as peer:
        yield peer


@asynccontextmanager
async def over_http(gateway: Gateway, version: str, **client: Any) -> AsyncGenerator[Peer]:
    """Connect one client over HTTP, as it is served; the proxy ends with it."""
    async with (
        serving(gateway) as app,
        another(app, Client(version, **client)) as peer,
    ):
        if version == OLDER:
            await peer.stand_by()
        yield peer


@asynccontextmanager
async def serving(gateway: Gateway) -> AsyncGenerator[Any]:
    app = http_app(gateway, gateway.tasks)
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture(params=[in_memory, over_http], ids=["memory", "http"])
def connect(request: pytest.FixtureRequest) -> Connect:
    return request.param
