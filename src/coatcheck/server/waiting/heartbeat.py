"""Progress on an open request: the work's own, and a sign of life when that is silent."""

from __future__ import annotations

import asyncio
import math

from coatcheck.server.hook import RequestContext
from coatcheck.task import Progress, Task

_NEXT_TO_NOTHING = 1e-6


class Heartbeat:
    """Tells the caller of progress. The protocol wants every value above the last, so a beat adds next to nothing."""

    def __init__(self, ctx: RequestContext, every: float) -> None:
        self._report = ctx.session.report_progress
        self._every = every if token_of(ctx) is not None or ctx.request is None else math.inf
        self._started = self._last = asyncio.get_running_loop().time()
        self._sent = 0.0
        self._total: float | None = None
        self._seen: tuple[Progress | None, str | None] = (None, None)
        self._is_live = False

    def seconds_left(self) -> float:
        """Return how long the caller may be left in silence."""
        return max(self._last + self._every - asyncio.get_running_loop().time(), 0.0)

    async def saw(self, task: Task) -> None:
        """Pass on what the task says that it did not say before, or beat if it is time."""
        seen, self._seen = self._seen, (task.progress, task.status_message)
        if task.progress is not None and seen != self._seen and not self._is_live:
            await self._send(task.progress.done, task.progress.total, task.status_message)
        elif not task.status.is_terminal:
            await self.beat()

    async def beat(self) -> None:
        """Give a sign of life, if it is time."""
        if self.seconds_left() == 0:
            seconds = asyncio.get_running_loop().time() - self._started
            await self._send(self._sent, self._total, f"Still working, {seconds:.0f} seconds so far")

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Pass on progress as the work reports it, in this process: earlier than the task can tell."""
        self._is_live = True
        await self._send(done, total, message)

    async def _send(self, value: float, total: float | None, message: str | None) -> None:
        self._sent = above(self._sent, value)
        self._total = total
        self._last = asyncio.get_running_loop().time()
        await self._report(self._sent, total, message)


def above(last: float, value: float) -> float:
    """Return `value`, or if it is not above the last one next to nothing more than that."""
    return value if value > last else max(last + _NEXT_TO_NOTHING, math.nextafter(last, math.inf))


def token_of(ctx: RequestContext) -> str | int | None:
    """Return under which token the caller wants to hear of progress, if at all."""
    return ctx.meta.get("progress_token") if ctx.meta else None
