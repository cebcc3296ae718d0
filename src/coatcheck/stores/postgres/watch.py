"""Who waits here, and for what: woken by what is written here, by what is heard, and by looking now and then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager

from coatcheck.errors import StoreError
from coatcheck.stores.postgres.bell import Bell
from coatcheck.stores.postgres.connections import Connections
from coatcheck.stores.postgres.ear import POLL_SECONDS, Ear
from coatcheck.stores.postgres.rows import key_of
from coatcheck.stores.postgres.schema import in_schema
from coatcheck.stores.postgres.writes import Write
from coatcheck.stores.waiters import Alarm, Waiters, ring

logger = logging.getLogger("coatcheck")

_SAFETY_SECONDS = 5.0
_WORK = ""
_MOST_AT_ONCE = 1000
_NEWS = """
select i.id from unnest($1::text[], $2::bigint[]) i (id, version) left join @.task t on t.id = i.id
where t.id is null or t.version > i.version
"""


class Watch:
    def __init__(self, connections: Connections, schema: str, channel: str) -> None:
        self._connections = connections
        self.bell = Bell(connections, schema, channel)
        self.ear = Ear(connections, schema, channel, self)
        self._news = in_schema(_NEWS, schema)
        self._loop = asyncio.get_running_loop()
        self._waiters = Waiters()
        self._watchers: dict[Alarm, tuple[str, int]] = {}
        """Who waits for a version of a task above this one."""
        self._seekers: dict[Alarm, Collection[int] | None] = {}
        """Who waits for work of these tools; None: of tools nobody here knows."""
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._pause = POLL_SECONDS[0]
        self._is_open = True

    # For those who wait

    @contextmanager
    def for_task(self, task_id: str, newer_than: int, timeout: float) -> Generator[Alarm]:
        with self._armed(key_of(task_id), timeout) as alarm:
            self._watchers[alarm] = (task_id, newer_than)
            try:
                yield alarm
            finally:
                del self._watchers[alarm]

    @contextmanager
    def for_work(self, works: Collection[int] | None, timeout: float) -> Generator[Alarm]:
        with self._armed(_WORK, timeout) as alarm:
            self._seekers[alarm] = works
            try:
                yield alarm
            finally:
                del self._seekers[alarm]

    async def offer(self) -> None:
        """Let others know what idle workers here would do."""
        await self.ear.offer(frozenset(work for works in self._seekers.values() for work in works or ()))

    # For those who write, and for the ear

    def tell(self, writes: Iterable[Write]) -> None:
        """Wake whoever waits for what was written, here and elsewhere."""
        keys, works = list[str](), list[int]()
        for write in writes:
            if not write.is_first:
                keys.append(key_of(write.task.id))
            if write.work is not None and not self._found_worker(write.work):
                works.append(write.work)
        self._waiters.wake(keys)
        self.bell.ringer = self.ear.number
        self.bell.ring(keys, works)

    def on_ring(self, payload: str) -> None:
        keys = self.bell.read(payload)
        if keys is None:
            self.on_doubt()
        else:
            self._waiters.wake(keys)

    def on_work(self, work: int) -> None:
        if not self._found_worker(work):
            self.bell.ring((), (work,))  # whoever was idle is not any more: let the next one know
        elif not all(alarm.done() for alarm in self._seekers):
            self._look_soon(POLL_SECONDS[0])  # nobody knows any more that the others are here, and there may be more

    def on_doubt(self) -> None:
        self._waiters.wake_all()
        self._look_soon()

    async def close(self) -> None:
        self._is_open = False
        if self._timer:
            self._timer.cancel()
        self._waiters.wake_all()
        if self._looking:
            await asyncio.wait((self._looking,))

    def _found_worker(self, work: int) -> bool:
        """Wake one who waits for this work, if there is one who has not been woken yet."""
        is_found = False
        for alarm, works in self._seekers.items():
            if not alarm.done() and (works is None or (work in works and not is_found)):
                ring(alarm)
                is_found = is_found or works is not None
        return is_found

    # Looking now and then

    @contextmanager
    def _armed(self, key: str, timeout: float) -> Generator[Alarm]:
        alarm = self._waiters.arm(key, timeout)
        if self._timer is None and self._looking is None:
            self._look_soon()
        try:
            yield alarm
        finally:
            self._waiters.disarm(alarm)

    def _look_soon(self, seconds: float | None = None) -> None:
        """Look again before long; more and more seldom if there is no need to."""
        if self._timer:
            self._timer.cancel()
        if self._is_open:
            self._pause = POLL_SECONDS[0]
            self._timer = self._loop.call_later(seconds or self._seconds(), self._look)

    def _look(self) -> None:
        self._timer = None
        self._looking = self._loop.create_task(self._look_again())

    def _seconds(self) -> float:
        return _SAFETY_SECONDS if self.ear.is_hearing else self._pause

    async def _look_again(self) -> None:
        is_news = False
        try:
            await self.ear.check()
            for alarm in self._seekers:
                ring(alarm)
            is_news = await self._wake_watchers()
            if not self._watchers:
                await self.ear.relax()
        except StoreError as error:
            logger.debug("Cannot look for changes just now: %s", error)
        finally:
            self._looking = None
        if self._timer is None and (self._watchers or self._seekers) and self._is_open:
            self._pause = POLL_SECONDS[0] if is_news else min(1.5 * self._pause, POLL_SECONDS[1])
            self._timer = self._loop.call_later(self._seconds(), self._look)

    async def _wake_watchers(self) -> bool:
        """Look at everything that is waited for, in as few statements as will do."""
        oldest: dict[str, int] = {}
        for task_id, version in self._watchers.values():
            oldest[task_id] = min(version, oldest.get(task_id, version))
        watched, is_news = list(oldest.items()), False
        for start in range(0, len(watched), _MOST_AT_ONCE):
            ids, versions = zip(*watched[start : start + _MOST_AT_ONCE], strict=True)
            rows = await self._connections.ask(self._news, ids, versions)
            self._waiters.wake(key_of(row[0]) for row in rows)
            is_news = is_news or bool(rows)
        return is_news
