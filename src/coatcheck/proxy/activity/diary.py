"""Events that survive a restart, in any store: two rows that take turns, written behind, silent when nothing happens.

A diary has two pages, each a finished task that nobody owns up to, with events in its journal. A journal cannot be
shortened, so when a page is full the other is torn out, as all on it is too old by then, and begun anew: whatever the
moment of a crash, no event that is still held is lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from coatcheck.engine import utc_now
from coatcheck.errors import CoatcheckError, InvalidArgument
from coatcheck.payload import decode, encode
from coatcheck.proxy.activity.events import MOST_EVENTS, Event
from coatcheck.store import Store
from coatcheck.task import Entry, Status, Task, ToolCall

logger = logging.getLogger("coatcheck")

OWNER = "coatcheck:diary"
TOOL = "coatcheck/events"
_LIFETIME = timedelta(hours=24)
_TICK = timedelta(microseconds=1)
_AT_A_TIME = 1000


class Diary:
    """The events of one session, by its name. Meant for one writer at a time, but two do each other no harm."""

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        lifetime: timedelta = _LIFETIME,
        clock: Callable[[], datetime] = utc_now,
        bound: int = MOST_EVENTS,
    ) -> None:
        if lifetime <= timedelta():
            raise InvalidArgument(f"A diary must be kept for more than no time, not for {lifetime}.")
        self._store, self._lifetime, self._clock, self._bound = store, lifetime, clock, bound
        self._ids = (_page_id(name, 0), _page_id(name, 1))
        self._page: Task | None = None
        """The page to write on, as it was last seen."""
        self._unwritten: list[Entry] = []
        self._delivered: str | None = None
        self._is_behind = False
        self._is_failing = False
        self._writing: asyncio.Task[None] | None = None

    async def read(self) -> tuple[list[Event], str | None]:
        """Return the last events, oldest first, and the id of the last that was delivered."""
        pages = await self._pages()
        entries = [entry for page in pages for entry in await self._entries(page)]
        events = {entry.key: _event(entry) for entry in entries if entry.kind == "event"}
        cursors = [page.status_message for page in pages if page.status_message]
        return [events[key] for key in sorted(events)][-self._bound :], max(cursors, default=None)

    def note(self, event: Event) -> None:
        """Have the event written, with all else that comes up meanwhile."""
        try:
            value = encode({"type": event.type, "server": event.server, "data": event.data})
        except InvalidArgument as error:
            logger.error("An event is not written down: %s", error)
            return
        self._unwritten.append(Entry(kind="event", key=event.id, value=value, at=event.at))
        del self._unwritten[: -self._bound]  # while the store cannot be written, no more than would be held
        self._write_soon()

    def delivered(self, event_id: str) -> None:
        """Have it written that this event and all before it were delivered."""
        self._delivered = _later(self._delivered, event_id)
        self._write_soon()

    async def settle(self) -> None:
        """Wait until all is written, or the store has refused it."""
        while self._writing:
            await asyncio.wait([self._writing])

    async def close(self) -> None:
        """Write what is left; what the store refused before is tried once more."""
        await self.settle()
        if self._is_behind:
            self._write_soon()
            await self.settle()

    async def erase(self) -> None:
        """Forget all of it: for a session that ends for good."""
        await self.settle()
        self._unwritten, self._is_behind = [], False
        for page in await self._pages():
            await self._store.delete(page)
        self._page = None

    def _write_soon(self) -> None:
        self._is_behind = True
        if not self._writing:
            self._writing = asyncio.create_task(self._catch_up())

    async def _catch_up(self) -> None:
        try:
            while self._is_behind:
                self._is_behind = False
                await self._write(self._unwritten.copy(), self._delivered)
                self._is_failing = False
        except Exception as error:
            self._is_behind = True  # it goes with the next write
            self._page = None
            if not self._is_failing:
                details = None if isinstance(error, CoatcheckError) else error
                logger.error("Events cannot be written, so a restart would lose them: %s", error, exc_info=details)
            self._is_failing = True
        finally:
            self._writing = None

    async def _write(self, entries: Sequence[Entry], delivered: str | None) -> None:
        """Append to the page as it is. If someone else wrote first, look again."""
        while True:
            page = await self._current()
            now = self._clock()
            changed = msgspec.structs.replace(
                page,
                version=page.version + 1,
                updated_at=max(now, page.updated_at + _TICK),
                expires_at=now + self._lifetime,
                entries=page.entries + len(entries),
                status_message=_later(page.status_message, delivered),
            )
            if await self._store.replace(changed, entries):
                self._page = changed
                written = {entry.key for entry in entries}
                self._unwritten = [entry for entry in self._unwritten if entry.key not in written]
                return
            self._page = None

    async def _current(self) -> Task:
        """Return a page with room on it."""
        while self._page is None or self._page.entries >= self._bound or self._is_expired(self._page):
            pages = await self._pages()
            if pages and pages[-1].entries < self._bound:
                self._page = pages[-1]
            else:
                self._page = await self._begun(pages)
        return self._page

    async def _begun(self, pages: Sequence[Task]) -> Task | None:
        """Begin a page after these; None if someone else was faster."""
        if len(pages) == len(self._ids) and not await self._store.delete(pages[0]):
            return None
        used = pages[-1].id if pages else self._ids[1]
        page = self._blank(self._ids[0] if used == self._ids[1] else self._ids[1], pages[-1] if pages else None)
        try:
            return await self._store.insert(page)
        except InvalidArgument:
            return None

    def _blank(self, page_id: str, before: Task | None) -> Task:
        now = self._clock()
        begun = now if before is None else max(now, before.created_at + _TICK)
        return Task(
            id=page_id,
            owner=OWNER,
            call=ToolCall(tool=TOOL),
            created_at=begun,
            updated_at=begun,
            expires_at=now + self._lifetime,
            poll_interval=self._lifetime,
            status=Status.COMPLETED,
            status_message=before and before.status_message,
            result=encode({}),
        )

    async def _pages(self) -> list[Task]:
        """Return the pages there are, the older one first; what has expired is gone, swept or not."""
        found = [page for page_id in self._ids if (page := await self._store.get(page_id))]
        for page in found:
            if self._is_expired(page):
                await self._store.delete(page)
        return sorted((page for page in found if not self._is_expired(page)), key=lambda page: page.position)

    async def _entries(self, page: Task) -> list[Entry]:
        entries: list[Entry] = []
        while more := await self._store.journal(page.id, after=len(entries), limit=_AT_A_TIME):
            entries += more
        return entries

    def _is_expired(self, page: Task) -> bool:
        return page.expires_at is not None and page.expires_at <= self._clock()


def _page_id(name: str, number: int) -> str:
    return f"diary-{hashlib.sha256(f'{TOOL}/{number}/{name}'.encode()).hexdigest()}"


def _later(one: str | None, other: str | None) -> str | None:
    """Return the later one of two ids of events, either of which may be missing."""
    return max(one or "", other or "") or None


def _event(entry: Entry) -> Event:
    value: dict[str, Any] = decode(entry.value)
    return Event(id=entry.key, type=value["type"], server=value["server"], data=value["data"], at=entry.at)
