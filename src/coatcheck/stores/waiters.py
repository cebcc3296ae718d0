"""Who waits for what in this process. A wake-up is a hint: the woken read the store again.

Thousands may wait for days, so an alarm is kept small: no list where one waits for a key, no context per timer.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Hashable, Iterable


class Alarm(asyncio.Future[None]):
    """Await it: it ends when its key is woken, or its time is up."""

    __slots__ = ("key", "next", "timer")

    def __init__(self, key: Hashable, timeout: float, following: Alarm | None, context: contextvars.Context) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(loop=loop)
        self.key, self.next = key, following
        self.timer = loop.call_later(timeout, ring, self, context=context)

    def seconds_left(self) -> float:
        return self.timer.when() - self.get_loop().time()


def ring(alarm: Alarm) -> None:
    if not alarm.done():
        alarm.set_result(None)


class Waiters:
    def __init__(self) -> None:
        self._context = contextvars.Context()
        self._first: dict[Hashable, Alarm] = {}
        """The alarms of a key are chained, the latest first."""

    def arm(self, key: Hashable, timeout: float) -> Alarm:
        """Arm first and read then, so that no change falls in between; disarm when done, woken or not."""
        alarm = self._first[key] = Alarm(key, timeout, self._first.get(key), self._context)
        return alarm

    def disarm(self, alarm: Alarm) -> None:
        alarm.timer.cancel()
        before, at = None, self._first.get(alarm.key)
        while at is not None and at is not alarm:
            before, at = at, at.next
        if at is None:
            return  # it was woken
        if before:
            before.next = alarm.next
        elif alarm.next:
            self._first[alarm.key] = alarm.next
        else:
            del self._first[alarm.key]

    def wake(self, keys: Iterable[Hashable]) -> None:
        for key in keys:
            alarm = self._first.pop(key, None)
            while alarm:
                ring(alarm)
                alarm = alarm.next

    def wake_all(self) -> None:
        self.wake(list(self._first))
