"""Who waits for what in this process. A wake-up is a hint: the woken read the store again.

Thousands may wait for days, so an alarm is kept small: no list where one waits for a key, and no timer of its own
where many may share one.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import Hashable, Iterable

_LONG_SECONDS = 5.0
_SHARED_SECONDS = 0.25


class Alarm(asyncio.Future[None]):
    """Await it: it ends when its key is woken, or its time is up."""

    __slots__ = ("deadline", "key", "next")

    def __init__(self, key: Hashable, deadline: float, following: Alarm | None) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.key, self.deadline, self.next = key, deadline, following

    def seconds_left(self) -> float:
        return self.deadline - self.get_loop().time()


def ring(alarm: Alarm) -> None:
    if not alarm.done():
        alarm.set_result(None)


class Waiters:
    def __init__(self) -> None:
        self._context = contextvars.Context()
        self._first: dict[Hashable, Alarm] = {}
        """The alarms of a key are chained, the latest first."""
        self._due: dict[float, set[Alarm]] = {}
        """The alarms that are rung at a time, if they were not before."""

    def arm(self, key: Hashable, timeout: float) -> Alarm:
        """Arm first and read then, so that no change falls in between; disarm when done, woken or not."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        if timeout >= _LONG_SECONDS:  # a little later does no harm, and others are rung then, too
            deadline = math.ceil(deadline / _SHARED_SECONDS) * _SHARED_SECONDS
        alarm = self._first[key] = Alarm(key, deadline, self._first.get(key))
        due = self._due.get(deadline)
        if due is None:
            due = self._due[deadline] = set()
            loop.call_at(deadline, self._ring, deadline, context=self._context)
        due.add(alarm)
        return alarm

    def disarm(self, alarm: Alarm) -> None:
        if due := self._due.get(alarm.deadline):
            due.discard(alarm)
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

    def _ring(self, deadline: float) -> None:
        for alarm in self._due.pop(deadline):
            ring(alarm)

    def wake_all(self) -> None:
        self.wake(list(self._first))
