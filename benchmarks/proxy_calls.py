"""What a proxy adds to a fast tool call, against what FastMCP's proxy adds to it."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import uvloop
from tests.interop import fastmcp_venv

from benchmarks import proxies
from benchmarks.children import command
from benchmarks.line import BELOW_BOUND, Line, Round, Settings, bounded, compared, percentile
from benchmarks.load import handshake, session
from benchmarks.load.handshake import Handshake
from benchmarks.load.meter import cpu_seconds
from benchmarks.load.session import Address, Session
from benchmarks.pipe import piped
from benchmarks.serving import Served, bare, require, serving
from benchmarks.timing import Spent

RIVAL = f"FastMCP {fastmcp_venv.VERSION}, one session for all"
_BOUND_MS = 1.5
_GENERATIONS = (session.PROTOCOL, handshake.PROTOCOL)
_TOOL, _ARGUMENTS, _SUM = "plain", {"a": 1, "b": 2}, "3"
_COMMAND = command("benchmarks.servers.bare_server")
_BLOCK = 12
"""Calls in a row on one way. The fewer, the more likely it is that a disturbance hits all ways alike."""

Call = Callable[[], Awaitable[Mapping[str, Any]]]


class Way(NamedTuple):
    """A way to the tool, and the process that stands in it."""

    call: Call
    pid: int | None = None


class Ways(NamedTuple):
    direct: Way
    ours: Way
    shared: Way
    """FastMCP's at its fastest."""
    fresh: Way
    """FastMCP's as its documents advise."""


Taken = Sequence[Spent]
"""What calls took, in the order of the ways."""


def run(settings: Settings) -> list[Line]:
    return uvloop.run(_run(settings))


async def _run(settings: Settings) -> list[Line]:
    lines: list[Line] = []
    async with serving(bare(settings)) as upstream:
        url = f"http://{upstream.address.host}:{upstream.address.port}{upstream.address.path}"
        for over, told, address in (("HTTP", [url], upstream.address), ("stdio", _COMMAND, None)):
            async with (
                serving(proxies.coatcheck(settings, {"bench": told}, "--no-prefix")) as ours,
                serving(proxies.fastmcp(settings, "shared", told)) as shared,
                serving(proxies.fastmcp(settings, "fresh", told)) as fresh,
            ):
                for generation in _GENERATIONS:
                    async with _ways(generation, address, ours, shared, fresh) as ways:
                        taken = await _rounds(settings, ways)
                    lines += _lines(f"{generation}, upstream over {over}", taken)
    return lines


@asynccontextmanager
async def _ways(generation: str, direct: Address | None, *proxies: Served) -> AsyncGenerator[Ways]:
    """Connect a client to each; to the upstream itself over stdio, where it has no address."""
    async with AsyncExitStack() as stack:
        if direct:
            call = await _connected(stack, generation, direct)
        else:
            pipe = await stack.enter_async_context(piped(_COMMAND))
            if generation == handshake.PROTOCOL:
                await pipe.shake_hands()
            call = partial(pipe.call, _TOOL, _ARGUMENTS)
        through = [Way(await _connected(stack, generation, each.address), each.pids[0]) for each in proxies]
        yield Ways(Way(call), *through)


async def _connected(stack: AsyncExitStack, generation: str, address: Address) -> Call:
    if generation == session.PROTOCOL:
        return partial((await stack.enter_async_context(Session(address))).call, _TOOL, _ARGUMENTS)
    client = await stack.enter_async_context(Handshake(address))
    return partial(client.request, "tools/call", name=_TOOL, arguments=_ARGUMENTS)


async def _rounds(settings: Settings, ways: Ways) -> list[Taken]:
    await _taken(ways, settings.scaled(10, 4))
    return [await _taken(ways, settings.scaled(6, 4)) for _ in range(settings.rounds)]


async def _taken(ways: Ways, blocks: int) -> Taken:
    taken = [Spent(0, 0.0, 0.0)] * len(ways)
    for _ in range(blocks):
        # Whoever always came after the same other would pay for what that one left behind.
        for at in random.sample(range(len(ways)), len(ways)):
            taken[at] += await _block(ways[at])
    return taken


async def _block(way: Way) -> Spent:
    latencies: list[float] = []
    cpu = cpu_seconds(way.pid) if way.pid else 0.0
    for _ in range(_BLOCK):
        start = time.perf_counter()
        answer = await way.call()
        latencies.append(time.perf_counter() - start)
        require(answer["content"][0]["text"], _SUM, "What the tool returned")
    used = cpu_seconds(way.pid) - cpu if way.pid else 0.0
    return Spent(_BLOCK, sum(latencies), used, tuple(latencies))


def _lines(what: str, rounds: Sequence[Taken]) -> list[Line]:
    against = [_added(taken, 2) for taken in rounds]
    advised = median(each.rival for each in (_added(taken, 3) for taken in rounds))
    return [
        bounded(
            f"a proxy adds, p50: {what}", "ms", [each.ours for each in against], bound=_BOUND_MS, note=_told(rounds)
        ),
        compared(
            "the same, FastMCP at its fastest",
            "ms",
            against,
            rival=RIVAL,
            target=BELOW_BOUND,
            note=f"the processor time is the proxy's; with a session for each request, as advised, FastMCP adds"
            f" {advised:.1f} ms",
        ),
    ]


def _added(taken: Taken, rival: int) -> Round:
    direct, ours, theirs = taken[0], taken[1], taken[rival]
    added, rivals = (each.p50_ms - direct.p50_ms for each in (ours, theirs))
    return Round(added, rivals, ours.cpu_microseconds, theirs.cpu_microseconds)


def _told(rounds: Sequence[Taken]) -> str:
    figures = [
        f"{name} {_quantile(rounds, at, 50)} and {_quantile(rounds, at, 90)}"
        for at, name in enumerate(("direct", "ours", "FastMCP", "FastMCP as advised"))
    ]
    return f"p50 and p90 in ms, one client: {', '.join(figures)}"


def _quantile(rounds: Sequence[Taken], at: int, percent: float) -> str:
    return f"{median(percentile(taken[at].latencies, percent) for taken in rounds) * 1e3:.2f}"
