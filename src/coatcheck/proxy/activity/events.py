"""What happened in a session and is told once, in whatever it is answered next; and who waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol, Self

import msgspec

from coatcheck.engine import utc_now
from coatcheck.proxy.activity.ulid import Ulids

logger = logging.getLogger("coatcheck")

MOST_EVENTS = 1000


class EventType(StrEnum):
    ELICITATION_REQUEST = "elicitation_request"
    ELICITATION_EXPIRED = "elicitation_expired"
    SAMPLING_REQUEST = "sampling_request"
    SAMPLING_EXPIRED = "sampling_expired"
    TASK_CREATED = "task_created"
    TASK_COMPLETED = "task_completed"
    TASK_FAILED = "task_failed"
    TASK_CANCELLED = "task_cancelled"
    TASK_EXPIRED = "task_expired"
    SERVER_ADDED = "server_added"
    SERVER_CONNECTED = "server_connected"
    SERVER_DISCONNECTED = "server_disconnected"
    SERVER_RECONNECTED = "server_reconnected"
    SERVER_REMOVED = "server_removed"
    NOTIFICATION = "notification"
    """Whatever else a server says of its own accord, that a resource was updated too; but never a log message."""
    TIMER_EXPIRED = "timer_expired"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    type: str
    """An `EventType`, or one that a newer version knows."""
    server: str | None
    data: dict[str, Any]
    at: datetime

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": str(self.type),
            "server": self.server,
            "timestamp": timestamp(self.at),
            "data": self.data,
        }


class Keeper(Protocol):
    """Remembers events beyond the life of this process, as a `Diary` does."""

    async def read(self) -> tuple[list[Event], str | None]: ...
    def note(self, event: Event) -> None: ...
    def delivered(self, event_id: str) -> None: ...
    async def close(self) -> None: ...


class Events:
    """The last events of one session. Each is taken once, and can be read again until it is too old to be held."""

    def __init__(
        self, *, diary: Keeper | None = None, clock: Callable[[], datetime] = utc_now, bound: int = MOST_EVENTS
    ) -> None:
        self._diary, self._clock, self._bound = diary, clock, bound
        self._ulids = Ulids(clock)
        self._held: list[Event] = []
        self._new = 0
        """How many of those held, the last ones, have not been taken yet."""
        self._added = 0
        self._last_id: str | None = None
        self._delivered_id: str | None = None
        self._waiters: dict[asyncio.Future[None], None] = {}
        """In a dict, as a set would wake them in no order."""
        self._has_warned = False

    @classmethod
    async def restored(
        cls, diary: Keeper, *, clock: Callable[[], datetime] = utc_now, bound: int = MOST_EVENTS
    ) -> Self:
        """Return the events as an earlier process left them: what it did not deliver for certain is to be taken."""
        events = cls(diary=diary, clock=clock, bound=bound)
        kept, delivered = await diary.read()
        events._resume(kept[-bound:], delivered)
        return events

    @property
    def has_undelivered(self) -> bool:
        return self._new > 0

    @property
    def last_id(self) -> str | None:
        """The latest event's id, held or not."""
        return self._last_id

    @property
    def last_delivered_id(self) -> str | None:
        return self._delivered_id

    def add(self, kind: str, server: str | None = None, /, **data: Any) -> Event:
        """Hold an event of an `EventType`, and wake whoever waits."""
        event = Event(id=self._ulids.new(), type=kind, server=server, data=data, at=self._clock())
        self._make_room()
        self._held.append(event)
        self._last_id = event.id
        self._new += 1
        self._added += 1
        if self._diary:
            self._diary.note(event)
        self._wake()
        return event

    def take(self) -> list[Event]:
        """Return what has not been taken before; from now on it has."""
        taken, self._new = self._latest(self._new), 0
        if taken:
            self._delivered_id = taken[-1].id
            if self._diary:
                self._diary.delivered(taken[-1].id)
        return taken

    def since(self, last_event_id: str | None) -> list[Event]:
        """Return what came after an event, taken or not; all that is held, if that event is not among it."""
        for index, event in enumerate(self._held):
            if event.id == last_event_id:
                return self._held[index + 1 :]
        return self._held.copy()

    async def wait(self, timeout: float) -> list[Event]:
        """Return what is new, as soon as anything is; nothing after `timeout` seconds. It is not taken by that.

        All who wait are woken by the same event, and all are given it, even if one of them takes it first.
        """
        if self._new:
            return self._latest(self._new)
        before = self._added
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            pass
        finally:
            del self._waiters[waiter]
        return self._latest(self._added - before)

    async def close(self) -> None:
        """Let go of those who wait, as if their time were up, and see that all is written."""
        self._wake()
        if self._diary:
            await self._diary.close()

    def _latest(self, count: int) -> list[Event]:
        return self._held[-count:] if count else []

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _make_room(self) -> None:
        if len(self._held) >= self._bound:
            del self._held[: max(1, self._bound // 10)]
            lost, self._new = max(0, self._new - len(self._held)), min(self._new, len(self._held))
            if lost:
                logger.warning("Events were dropped that nobody had asked for, as there were too many: %d", lost)
        elif len(self._held) + 1 >= self._bound * 0.8 and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%d events are held, %d of them undelivered; from %d on, the oldest are dropped",
                len(self._held) + 1,
                self._new + 1,
                self._bound,
            )

    def _resume(self, kept: list[Event], delivered: str | None) -> None:
        self._held, self._delivered_id = kept, delivered
        self._last_id = max((event.id for event in kept), default=delivered)
        self._new = sum(delivered is None or event.id > delivered for event in kept)
        self._ulids = Ulids(self._clock, after=max(self._last_id or "", delivered or "") or None)


def timestamp(moment: datetime) -> str:
    """Return the moment as the protocol writes it, in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
