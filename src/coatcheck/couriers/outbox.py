"""Giving ids to Docket: new ones at once, and in time whatever waits for a worker while Docket does not know of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

from docket import Docket, TaskCall

from coatcheck.couriers.connection import FUNCTION
from coatcheck.couriers.schedule import not_before
from coatcheck.couriers.trouble import Trouble
from coatcheck.engine import Engine
from coatcheck.errors import StoreError
from coatcheck.task import Position, Task

_LONG_POLL_SECONDS = 60.0
_PAUSE_SECONDS, _TASKS_PER_SECOND = 0.5, 1000
"""Between two looks at what waits: that long, and more if thousands wait."""
_BATCH, _MOST = 100, 2000
_REDIS_SECONDS = 10.0
"""Docket's own reads never time out; a network that swallows everything must not stop us for good."""
_FRESH = timedelta(seconds=1)
"""So long a new task is the business of whoever made it."""
_BETWEEN_CLAIMS = timedelta(seconds=2)
"""So long Docket may have a task running, of which the row does not know yet, or no longer."""
_QUEUED, _SCHEDULED, _RUNNING = b"queued", b"scheduled", b"running"


class Outbox:
    """Docket keeps an id once, so to give it one again does no harm."""

    def __init__(
        self,
        docket: Docket,
        engine: Engine,
        tools: Callable[[], Collection[str]],
        fetch: Callable[[Task], None],
    ) -> None:
        """`fetch` is given what Docket keeps for later, though its time has come."""
        self._docket, self._engine, self._tools, self._fetch = docket, engine, tools, fetch
        self._new: list[Task] = []
        self._cancelled: list[str] = []
        self._has_new = asyncio.Event()
        self._poll: asyncio.Future[Sequence[Task]] | None = None
        self._place: Position | None = None
        """How far it was looked behind those in front. None: to begin with the newest."""
        self._trouble = Trouble("Cannot give tasks to Docket, so they wait")

    def put(self, task: Task) -> None:
        """Have this new task given to Docket; nobody need wait for that, as the row is written."""
        self._new.append(task)
        self._has_new.set()

    async def send(self) -> None:
        """Give away what was put in. What cannot be given is left for `look`."""
        while await self._has_new.wait():
            self._has_new.clear()
            await self._flush()

    async def look(self) -> None:
        """See that Docket knows whatever waits: of a node that died before it could say so, freed from a lost worker,
        answered after it was parked, or forgotten by Redis.
        """
        limit = _BATCH
        while True:
            waiting: Sequence[Task] = ()
            behind = 0
            try:
                waiting = await self._waiting(limit)
                await self._give_missing(waiting)
                if len(waiting) == limit:
                    behind = await self._look_behind(waiting[-1].position)
            except Exception as error:
                self._trouble.begin(error)
            limit = min(len(waiting) + _BATCH, _MOST)  # what Docket has is in front for as long as it waits there
            await asyncio.sleep(max(_PAUSE_SECONDS, (len(waiting) + behind) / _TASKS_PER_SECOND))

    def look_anew(self) -> None:
        """There are other tools to look for."""
        if self._poll:
            self._poll.cancel()

    def take_back(self, task_id: str) -> None:
        """Tell Docket that this one is cancelled, if it can be told; the row says so in any case."""
        self._cancelled.append(task_id)
        self._has_new.set()

    async def close(self, left: Collection[str] = ()) -> None:
        """Give away what there still is, and those of `left` that wait for another worker now."""
        try:
            found = [await self._engine.store.get(task_id) for task_id in left]
            self._new += [task for task in found if task and task.is_waiting]
        except StoreError as error:
            self._trouble.begin(error)
        await self._flush()

    async def _flush(self) -> None:
        new, cancelled = tuple(self._new), tuple(self._cancelled)
        try:
            if new:
                await self._give(new)
            for task_id in cancelled:
                async with asyncio.timeout(_REDIS_SECONDS):
                    await self._docket.cancel(task_id)
        except Exception as error:
            self._trouble.begin(error)
        # Only now: if this is interrupted, `close` gives them away once more.
        del self._new[: len(new)], self._cancelled[: len(cancelled)]

    async def _give(self, tasks: Sequence[Task], *, again: Sequence[Task] = ()) -> None:
        """Add these to the docket; and `again` those it believes to be running."""
        async with asyncio.timeout(_REDIS_SECONDS):
            await self._docket.add_many([self._call(task) for task in tasks])
            await self._docket.replace_many([self._call(task) for task in again])
        self._trouble.end()

    async def _waiting(self, limit: int) -> Sequence[Task]:
        poll = self._engine.waiting(tuple(self._tools()), limit=limit, timeout=_LONG_POLL_SECONDS)
        self._poll = asyncio.ensure_future(poll)
        try:
            await asyncio.wait((self._poll,))
        finally:
            self._poll.cancel()
        return () if self._poll.cancelled() else self._poll.result()

    async def _give_missing(self, waiting: Sequence[Task]) -> None:
        now = self._engine.clock()
        due = [task for task in waiting if task.attempt or now - task.created_at >= _FRESH]
        if not due:
            return
        states = await self._states(due)
        self._trouble.end()
        found = list(zip(due, states, strict=True))
        missing = [task for task, state in found if state not in (_QUEUED, _SCHEDULED, _RUNNING)]
        stuck = [task for task, state in found if state == _RUNNING and now - task.updated_at >= _BETWEEN_CLAIMS]
        if missing or stuck:
            await self._give(missing, again=stuck)
        for task, state in found:
            if state == _SCHEDULED and (not_before(task) or now) <= now:
                self._fetch(task)

    async def _look_behind(self, front: Position) -> int:
        """Do the same for some of those behind the front, which Docket may keep waiting for hours; return how many rows
        that took. Each time it goes on where it was, from the newest to the front.
        """
        tools, read = self._tools(), 0
        while read < _MOST:
            page = await self._engine.list_all(after=self._place, limit=_BATCH)
            read += len(page)
            await self._give_missing([task for task in page if task.is_waiting and task.call.full_name in tools])
            self._place = page[-1].position if page and page[-1].position > front else None
            if self._place is None:
                break
            await asyncio.sleep(0)  # some stores read in place, and whoever else is here would have to wait
        return read

    async def _states(self, tasks: Sequence[Task]) -> list[bytes | None]:
        """Return what Docket says of these. Not by its own method, which would unpickle what it finds."""
        async with (
            asyncio.timeout(_REDIS_SECONDS),
            self._docket.redis() as redis,
            redis.pipeline() as pipeline,
        ):
            for task in tasks:
                pipeline.hgetall(self._docket.runs_key(task.id))
            return [record.get(b"state") for record in await pipeline.execute()]

    def _call(self, task: Task) -> TaskCall:
        return self._docket.call(FUNCTION, when=not_before(task), key=task.id)(task.id)
