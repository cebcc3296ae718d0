"""Timers of a session: they go off once or again and again, until they are deleted."""

from __future__ import annotations

import asyncio
import builtins
import logging
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from coatcheck.engine import utc_now
from coatcheck.errors import InvalidArgument
from coatcheck.proxy.activity.events import timestamp
from coatcheck.proxy.activity.ulid import Ulids

logger = logging.getLogger("coatcheck")

MOST_TIMERS = 100
LONGEST_SECONDS = 24 * 60 * 60
SHORTEST_REPEAT_SECONDS = 1.0


class Timer(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    seconds: float
    message: str | None
    repeats: bool
    set_at: datetime
    due_at: datetime
    times_expired: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "timer_id": self.id,
            "duration_ms": round(self.seconds * 1000),
            "message": self.message,
            "repeats": self.repeats,
            "created_at": timestamp(self.set_at),
            "expires_at": timestamp(self.due_at),
            "times_expired": self.times_expired,
        }


class Timers:
    """Up to a hundred timers. One that goes off is passed to `on_expiry`; unless it repeats it is gone by then."""

    def __init__(
        self,
        on_expiry: Callable[[Timer], object],
        *,
        clock: Callable[[], datetime] = utc_now,
        most: int = MOST_TIMERS,
        shortest_repeat: float = SHORTEST_REPEAT_SECONDS,
    ) -> None:
        self._on_expiry, self._clock, self._most, self._shortest_repeat = on_expiry, clock, most, shortest_repeat
        self._ulids = Ulids(clock)
        self._timers: dict[str, Timer] = {}
        self._handles: dict[str, asyncio.TimerHandle] = {}

    def set(self, seconds: float, message: str | None = None, repeats: bool = False) -> Timer:
        """Start a timer.

        Raises:
            InvalidArgument: It would be too long or too short, or there are too many.
        """
        self._check(seconds, repeats)
        now, loop = self._clock(), asyncio.get_running_loop()
        timer = Timer(
            id=self._ulids.new(),
            seconds=seconds,
            message=message,
            repeats=repeats,
            set_at=now,
            due_at=now + timedelta(seconds=seconds),
        )
        self._timers[timer.id] = timer
        self._arm(timer.id, loop.time() + seconds)
        return timer

    def list(self) -> builtins.list[Timer]:
        """Return those that are running, the next to go off first."""
        return sorted(self._timers.values(), key=lambda timer: (timer.due_at, timer.id))

    def get(self, timer_id: str) -> Timer:
        """Return a timer that is running.

        Raises:
            InvalidArgument: There is none, or no longer.
        """
        if timer_id not in self._timers:
            raise InvalidArgument(f"No timer {timer_id!r:.60} is running; list the timers to see those that are.")
        return self._timers[timer_id]

    def delete(self, timer_id: str) -> Timer:
        """Stop a timer, and return it as it was.

        Raises:
            InvalidArgument: There is none, or no longer.
        """
        timer = self.get(timer_id)
        del self._timers[timer_id]
        self._handles.pop(timer_id).cancel()
        return timer

    def close(self) -> None:
        """Stop all of them."""
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()
        self._timers.clear()

    def _check(self, seconds: float, repeats: bool) -> None:
        if not (math.isfinite(seconds) and 0 < seconds <= LONGEST_SECONDS):
            raise InvalidArgument(f"A timer can run for more than 0 s and up to 24 h, not for {seconds} s.")
        if repeats and seconds < self._shortest_repeat:
            raise InvalidArgument(
                f"A timer can repeat every {self._shortest_repeat:g} s or less often, not every {seconds} s."
            )
        if len(self._timers) >= self._most:
            raise InvalidArgument(f"There are {self._most} timers, the most allowed; delete one, or wait for one.")

    def _arm(self, timer_id: str, when: float) -> None:
        self._handles[timer_id] = asyncio.get_running_loop().call_at(when, self._expire, timer_id, when)

    def _expire(self, timer_id: str, when: float) -> None:
        timer = self._timers.pop(timer_id)
        del self._handles[timer_id]
        timer = msgspec.structs.replace(timer, times_expired=timer.times_expired + 1)
        if timer.repeats:
            due_at = self._clock() + timedelta(seconds=timer.seconds)
            timer = self._timers[timer_id] = msgspec.structs.replace(timer, due_at=due_at)
            # What was missed while the loop was busy is not made up for.
            self._arm(timer_id, max(when + timer.seconds, asyncio.get_running_loop().time()))
        try:
            self._on_expiry(timer)
        except Exception:
            logger.exception("Nobody could be told that a timer went off")
