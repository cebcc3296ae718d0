"""Looking after jobs whose tasks have ended without them, whoever worked on them: cancelled, failed, or expired."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from coatcheck.context import STEP
from coatcheck.engine import Engine
from coatcheck.errors import StoreError, StoreUnavailable
from coatcheck.executor import Executor, JobRefused
from coatcheck.executors.persistence import PASSING
from coatcheck.executors.run import ID, KEY
from coatcheck.payload import decode
from coatcheck.task import Position, Status, Task

logger = logging.getLogger("coatcheck")

_PAGE = 100
_TASKS_PER_SECOND = 1000
"""So many are read at most, in the long run."""
_LONGEST_SECONDS = 60.0
"""Of a pause for that; and of stopping jobs, before it is looked which others are to be stopped."""
_MARGIN = timedelta(minutes=1)
"""So much older than the last look a task may be that it did not see: clocks differ, and writes take their time."""
_LANDING = timedelta(minutes=5)
"""So long a job may still appear under its key: of a request that was under way when its worker died."""
_PERSISTENCE = timedelta(days=1)
"""So long one process tries to stop a job."""


@dataclass(slots=True)
class _Watched:
    """The jobs of a task that has not ended, as far as its journal was read: by their numbers in it."""

    entries: int = 0
    keys: dict[str, str] = field(default_factory=dict[str, str])
    ids: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class _Left:
    """A job that its task has left behind."""

    job_id: str | None
    """None: it was not written down."""
    lands_by: datetime
    """Until when it may still appear."""
    since: datetime
    due: datetime
    """When it is tried next."""


class Caretaker:
    """Needs no leader: to stop a job twice does no harm."""

    def __init__(self, engine: Engine, executor: Executor) -> None:
        self._engine, self._executor = engine, executor
        self._key, self._id = (f"{STEP}:{what}{executor.name}" for what in (KEY, ID))
        self._since = datetime.min.replace(tzinfo=UTC)
        """All tasks that were made before have been seen."""
        self._unfinished: dict[str, _Watched] = {}
        self._ended: dict[str, datetime] = {}
        """When they were seen to, so that they are not again while they are still new."""
        self._left: dict[str, _Left] = {}
        """By their keys."""

    async def run(self) -> None:
        """Look again and again, as often as a worker sweeps or as the number of tasks allows, until cancelled."""
        while True:
            read = await self.look()
            pause = self._engine.policy.lease.total_seconds() / 4
            pause = max(pause, min(read / _TASKS_PER_SECOND, _LONGEST_SECONDS))
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))

    async def look(self) -> int:
        """Stop the jobs of every task that has ended without a result, if they have not been stopped.

        Returns how many tasks were read: all of them the first time; later what is unfinished, and what is new.
        """
        read = 0
        try:
            read = await self._find()
        except Exception as error:
            logger.error("Cannot look after the jobs of %s just now: %r", self._executor.name, error)
        await self._stop_all()
        return read

    async def _find(self) -> int:
        """See which tasks have ended; return how many were read."""
        began, read = self._engine.clock(), len(self._unfinished)
        known = list(self._unfinished)
        for first in range(0, read, _PAGE):
            ids = known[first : first + _PAGE]
            found = await asyncio.gather(*map(self._engine.store.get, ids), return_exceptions=True)
            for task_id, task in zip(ids, found, strict=True):
                await self._see(task_id, task)
        after: Position | None = None
        while page := await self._engine.list_all(after=after, limit=_PAGE):
            read += len(page)
            for task in filter(self._is_new, page):
                await self._see(task.id, task)
            after = page[-1].position
            if after[0] < self._since:
                break
            await asyncio.sleep(0)  # some stores read in place, and whoever else is here would have to wait
        self._since = began - _MARGIN
        self._ended = {task_id: at for task_id, at in self._ended.items() if at >= self._since}
        return read

    def _is_new(self, task: Task) -> bool:
        is_known = task.created_at < self._since or task.id in self._unfinished or task.id in self._ended
        return not is_known and task.status is not Status.COMPLETED

    async def _see(self, task_id: str, found: Task | BaseException | None) -> None:
        """Take note of how a task stands; None: it is gone."""
        try:
            if isinstance(found, BaseException):
                raise found
            watched = self._unfinished.setdefault(task_id, _Watched())
            # What nobody holds may expire, and its journal is gone with it.
            if found and found.lease is None and found.status is not Status.COMPLETED:
                await self._read_journal(found, watched)
            if found and not found.status.is_terminal:
                return
            if found is None or found.status is not Status.COMPLETED:
                now = self._engine.clock()
                lands_by = (found.updated_at if found else now) + _LANDING
                for number, key in watched.keys.items():
                    self._left[key] = _Left(watched.ids.get(number), lands_by, since=now, due=now)
        except StoreUnavailable:
            raise
        except StoreError as error:
            logger.error("Task %s is passed over, and if it has jobs, they may run on: %s", task_id, error)
        self._unfinished.pop(task_id, None)
        self._ended[task_id] = self._engine.clock()

    async def _read_journal(self, task: Task, watched: _Watched) -> None:
        while watched.entries < task.entries:
            page = await self._engine.store.journal(task.id, after=watched.entries, limit=_PAGE)
            if not page:
                break
            for entry in page:
                name, _, number = entry.key.rpartition("#")
                if name == self._key:
                    watched.keys[number] = decode(entry.value)
                elif name == self._id:
                    watched.ids[number] = decode(entry.value)
            watched.entries += len(page)

    async def _stop_all(self) -> None:
        """Stop what is left, as far as there is time. What cannot be stopped is behind the others the next time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _LONGEST_SECONDS
        for key in list(self._left):
            if loop.time() >= until:
                break
            left = self._left.pop(key)
            if left.due > self._engine.clock() or not await self._stop(key, left):
                self._left[key] = left

    async def _stop(self, key: str, left: _Left) -> bool:
        """Stop one job; return whether there is nothing more to do about it."""
        name, now = self._executor.name, self._engine.clock()
        later = now + (now - left.since)  # ever more seldom
        try:
            left.job_id = left.job_id or await self._executor.attach(key)
            if left.job_id is None:
                left.due = later
                return now >= left.lands_by
            await self._executor.cancel(left.job_id)
        except Exception as error:  # whatever it is: the others are to be stopped all the same
            if isinstance(error, JobRefused) or now - left.since >= _PERSISTENCE:
                logger.error("A job of %s may run on, though its task has ended: %r", name, error)
                return True
            is_known = isinstance(error, PASSING)
            if not is_known:  # a fault of the executor's, which need not be met at every look
                left.due = later
            logger.warning("A job of %s is not stopped yet: %r", name, error, exc_info=None if is_known else error)
            return False
        return True
