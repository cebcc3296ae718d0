"""Whether a connected server still answers: asked now and then, and only told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from coatcheck.client.connection import ConnectionLost

INTERVAL_SECONDS = 120.0
TIMEOUT_SECONDS = 60.0
DEGRADED_AFTER = 3


class Health:
    def __init__(self, probe: Callable[[float], Awaitable[None]], interval: float = INTERVAL_SECONDS) -> None:
        self._probe, self._interval = probe, interval
        self.failures = 0
        self.is_known = False
        self._due: asyncio.TimerHandle | None = None
        self._probing: asyncio.Task[None] | None = None

    @property
    def status(self) -> str:
        if not self.is_known:
            return "unknown"
        return "degraded" if self.failures >= DEGRADED_AFTER else "healthy"

    def describe(self) -> dict[str, Any]:
        return {"status": self.status, "consecutive_failures": self.failures}

    def start(self) -> None:
        self.failures, self.is_known = 0, True
        self._schedule()

    def stop(self) -> None:
        self.is_known = False
        if self._due:
            self._due.cancel()
            self._due = None
        if self._probing:
            self._probing.cancel()
            self._probing = None

    def _schedule(self) -> None:
        if self._due:
            self._due.cancel()
        self._due = asyncio.get_running_loop().call_later(self._interval, self._begin)

    def _begin(self) -> None:
        self._probing = asyncio.create_task(self.check())

    async def check(self) -> None:
        """Ask once, and note what comes of it."""
        try:
            await self._probe(TIMEOUT_SECONDS)
            self.failures = 0
        except (ConnectionLost, TimeoutError):
            self.failures += 1
        if self._due is not None:
            self._schedule()
