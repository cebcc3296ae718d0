"""Who waits for what in this process. A wake-up is a hint: the woken read the store again."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable


class Waiters:
    def __init__(self) -> None:
        self._waiting: dict[Hashable, set[asyncio.Future[None]]] = {}

    def arm(self, key: Hashable) -> asyncio.Future[None]:
        """Return what `wake(key)` will set. Arm first and read then, so that no change falls in between."""
        alarm = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, set()).add(alarm)
        return alarm

    async def sleep(self, key: Hashable, alarm: asyncio.Future[None], timeout: float) -> None:
        """Wait until woken, at most `timeout` seconds."""
        timer = asyncio.get_running_loop().call_later(timeout, _ring, alarm)
        try:
            await alarm
        finally:
            timer.cancel()
            self.disarm(key, alarm)

    def disarm(self, key: Hashable, alarm: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.discard(alarm)
            if not waiting:
                del self._waiting[key]

    def wake(self, keys: Iterable[Hashable]) -> None:
        for key in keys:
            for alarm in self._waiting.get(key, ()):
                _ring(alarm)

    def wake_all(self) -> None:
        self.wake(list(self._waiting))

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))


def _ring(alarm: asyncio.Future[None]) -> None:
    if not alarm.done():
        alarm.set_result(None)
