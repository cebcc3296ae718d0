"""200 clients of 2025-11-25 and 5 upstreams in one proxy: memory for each, and what holding them costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import uvloop

from benchmarks import proxies
from benchmarks.line import Line, Settings, percentile, plain
from benchmarks.load.channel import Channel
from benchmarks.load.handshake import PROTOCOL, Handshake
from benchmarks.load.meter import Meter, rss_mb
from benchmarks.load.session import Address
from benchmarks.serving import Served, bare, require, serving

_UPSTREAMS = tuple(f"bench{number}" for number in range(5))
_ARGUMENTS = {"a": 1, "b": 2}
_AT_ONCE = 8
_SETTLE_SECONDS = 3.0
_IDLE_SECONDS = 20


class Client(Handshake):
    """A session that also listens, as those of the SDKs do."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._stream: Channel | None = None
        self._heard: asyncio.Task[object] | None = None

    async def listen(self) -> None:
        """Open the stream on which a server speaks of its own accord; it stays open."""
        address = self._address
        _, self._stream = await asyncio.get_running_loop().create_connection(Channel, address.host, address.port)
        request = (
            f"GET {address.path} HTTP/1.1\r\nHost: {address.host}:{address.port}\r\nAccept: text/event-stream\r\n"
            f"Mcp-Session-Id: {self._session}\r\nMCP-Protocol-Version: {PROTOCOL}\r\n\r\n"
        ).encode()
        self._heard = asyncio.create_task(self._stream.exchange(request))

    @property
    def is_listening(self) -> bool:
        return self._heard is not None and not self._heard.done()

    async def call_each(self) -> list[float]:
        """Call a tool of every upstream; return how long each took."""
        return [await self._call(f"{upstream}__plain") for upstream in _UPSTREAMS]

    async def _call(self, tool: str) -> float:
        start = time.perf_counter()
        answer = await self.request("tools/call", name=tool, arguments=_ARGUMENTS)
        require(answer["content"][0]["text"], "3", f"What {tool} returned")
        return time.perf_counter() - start

    async def __aexit__(self, *_: object) -> None:
        if self._heard and self._stream:
            self._heard.cancel()
            self._stream.close()
        await super().__aexit__()


def run(settings: Settings) -> list[Line]:
    return uvloop.run(_run(settings))


async def _run(settings: Settings) -> list[Line]:
    count, seconds = settings.scaled(200, 20), settings.scaled(_IDLE_SECONDS, 3)
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(bare(settings))) for _ in _UPSTREAMS]
        told = {name: [_url(server)] for name, server in zip(_UPSTREAMS, servers, strict=True)}
        proxy = await stack.enter_async_context(serving(proxies.coatcheck(settings, told)))
        # What a proxy needs once, for its first sessions, is not part of what it needs for each.
        await _called(await stack.enter_async_context(_clients(proxy.address, _AT_ONCE)))
        before, started = rss_mb(proxy.pids[0]), time.perf_counter()
        clients = await stack.enter_async_context(_clients(proxy.address, count))
        connected = await _called(clients)
        opened = time.perf_counter() - started
        await asyncio.sleep(_SETTLE_SECONDS)
        held = rss_mb(proxy.pids[0])
        with Meter(proxy.pids) as meter:
            await asyncio.sleep(seconds)
        again = await _called(clients)
        require(all(client.is_listening for client in clients), True, "All sessions still listen")
    memory = (
        f"{held:.0f} MB in all, {before:.0f} MB with {_AT_ONCE} sessions; opened, and each upstream called, in"
        f" {opened:.1f} s; a first call p50 {_p50(connected)} ms, one after that {_p50(again)} ms, {_AT_ONCE} at a time"
    )
    idle = (
        f"of one core, over {seconds} s; each of the {count * len(_UPSTREAMS):,} streams from an upstream brings a sign"
        " of life every 15 s"
    )
    each = (held - before) / count * 1e3
    return [
        plain(f"memory, each of {count} sessions x {len(_UPSTREAMS)} upstreams", "kB", [each], note=memory),
        plain(f"processor time, {count} sessions idle", "%", [100 * meter.metrics["server_cpu"]], note=idle),
    ]


@asynccontextmanager
async def _clients(address: Address, count: int) -> AsyncGenerator[list[Client]]:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(address)) for _ in range(count)]
        for client in clients:
            await client.listen()
        yield clients


async def _called(clients: Sequence[Client]) -> list[float]:
    """Let every client call each upstream, some at a time; return how long all calls took."""
    left, taken = iter(clients), list[float]()

    async def take() -> None:
        for client in left:
            taken.extend(await client.call_each())

    await asyncio.gather(*(take() for _ in range(_AT_ONCE)))
    return taken


def _url(server: Served) -> str:
    return f"http://{server.address.host}:{server.address.port}{server.address.path}"


def _p50(seconds: Sequence[float]) -> str:
    return f"{percentile(seconds, 50) * 1e3:.1f}"
