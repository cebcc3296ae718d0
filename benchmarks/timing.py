"""How a piece of work is timed, and how ours and the rival's take turns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence

import msgspec

from benchmarks.line import Round, percentile

CALLERS = 32
_TURNS = 4


class Spent(msgspec.Struct, frozen=True):
    """What a number of operations took."""

    operations: int
    seconds: float
    cpu_seconds: float
    """Processor time of all threads of the process that did it."""
    latencies: tuple[float, ...] = ()
    """The seconds each took, where that was noted."""

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.operations + other.operations,
            self.seconds + other.seconds,
            self.cpu_seconds + other.cpu_seconds,
            self.latencies + other.latencies,
        )

    @property
    def per_second(self) -> float:
        return self.operations / self.seconds

    @property
    def microseconds(self) -> float:
        return self.seconds / self.operations * 1e6

    @property
    def cpu_microseconds(self) -> float:
        return self.cpu_seconds / self.operations * 1e6

    @property
    def p50_ms(self) -> float:
        return percentile(self.latencies, 50) * 1e3


Turn = Callable[[], Awaitable[Spent]]
_NOTHING = Spent(0, 0.0, 0.0)


async def spent(operations: int, work: Awaitable[object]) -> Spent:
    cpu, started = time.process_time(), time.perf_counter()
    await work
    return Spent(operations, time.perf_counter() - started, time.process_time() - cpu)


async def together(callers: Sequence[Coroutine[None, None, None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for caller in callers:
            group.create_task(caller)


async def alternate(
    rounds: int, ours: Turn, rival: Turn, figure: Callable[[Spent], float], turns: int = _TURNS
) -> list[Round]:
    """Let both take several short turns in every round, each going first in every other one.

    The shorter the turns, the more likely it is that a disturbance hits both sides alike.
    """
    found: list[Round] = []
    for _ in range(rounds):
        own = theirs = _NOTHING
        for number in range(turns):
            if number % 2:
                theirs += await rival()
                own += await ours()
            else:
                own += await ours()
                theirs += await rival()
        found.append(Round(figure(own), figure(theirs), own.cpu_microseconds, theirs.cpu_microseconds))
    return found
