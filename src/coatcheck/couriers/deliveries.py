"""What becomes of the ids that Docket brings: the row says whether there is anything to do, and for whom."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Mapping, Set
from datetime import timedelta

from docket import Execution as Delivery
from docket.dependencies import AdmissionBlocked

from coatcheck.couriers.limits import Limits
from coatcheck.couriers.schedule import not_before
from coatcheck.couriers.trouble import Trouble
from coatcheck.engine import Engine
from coatcheck.execution import Execution, wind_up
from coatcheck.task import Task
from coatcheck.tool import Tool

logger = logging.getLogger("coatcheck")

_RETRY = timedelta(seconds=1)
_STRANGER_SHARE, _SOONEST, _LATEST = 4, timedelta(seconds=0.25), timedelta(seconds=30)
"""A task nobody here knows is offered again after a quarter of the time it has waited: often at first, then rarely."""


class Deliveries:
    """Claims the row behind an id, and carries it out. Docket may bring an id twice, late, or for nothing."""

    def __init__(self, engine: Engine, worker: str, limits: Limits) -> None:
        self._engine, self._worker, self._limits = engine, worker, limits
        self.tools: Mapping[str, Tool] = {}
        """By what tasks are called that they can run; never changed, only replaced."""
        self.is_closed = False
        self._is_giving_up = False
        self._strangers: set[str] = set()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._runs: set[Execution] = set()
        self._trouble = Trouble("Cannot read or claim what Docket brings")
        self.context = contextvars.copy_context()
        """What tasks run in, each in a copy: alike, wherever they come from."""

    @property
    def under_way(self) -> Set[asyncio.Task[None]]:
        return set(self._under_way.values())

    def has_room(self, slots: int) -> bool:
        """Whether one more may be carried out without asking Docket, which alone counts what is limited."""
        return not self._limits.are_set and len(self._under_way) < slots

    async def admit(self, delivery: Delivery) -> Task | None:
        """Return the task if it is to be carried out now. None: there is nothing to do.

        Raises:
            AdmissionBlocked: Not here, or not yet; Docket offers it again.
        """
        if self.is_closed:
            raise AdmissionBlocked(delivery, "this worker stops")
        try:
            task = await self._engine.store.get(delivery.key)
        except Exception as error:
            self._trouble.begin(error)
            raise AdmissionBlocked(delivery, "the store is out of order", retry_delay=_RETRY) from error
        self._trouble.end()
        if task is None:
            return None
        if task.is_waiting:
            self._check_tool(delivery, task)
            self._check_time(delivery, task)
        # Also for what needs no worker any more: it may have been called up when a place became free, and if it did
        # not take and leave that place, nobody would call up the next.
        for limit in self._limits.of(task):
            await limit.__aenter__()  # Docket itself leaves it, once the delivery is over
        return task if task.is_waiting and not self._is_expired(task) else None

    def carry_out(self, task: Task) -> asyncio.Task[None] | None:
        """Claim the task and run it, whatever becomes of its delivery. None: it is being carried out already."""
        if task.id in self._under_way:
            return None
        job = asyncio.get_running_loop().create_task(self._carry_out(task), context=self.context.copy())
        self._under_way[task.id] = job
        job.add_done_callback(lambda _: self._under_way.pop(task.id))
        return job

    async def close(self, grace: float) -> set[str]:
        """Give running work its grace, then hand it to others, or fail it if it may not be run again.

        Returns the ids of what was not finished.
        """
        self.is_closed = True
        if jobs := self.under_way:
            logger.info("Stopping; %d running tasks have %g seconds to finish", len(jobs), grace)
            await asyncio.wait(jobs, timeout=grace)
        left = set(self._under_way)
        self._is_giving_up = True
        await wind_up(self._runs, self._all_over, self._engine.policy)
        return left

    async def _all_over(self) -> None:
        if jobs := self.under_way:
            await asyncio.wait(jobs)

    async def _carry_out(self, task: Task) -> None:
        tool = self.tools.get(task.call.full_name)
        claimed = await self._claim(task) if tool else None
        if tool is None or claimed is None:
            return
        ended = asyncio.Event()
        execution = Execution(self._engine, claimed, tool, lambda _: ended.set())
        self._runs.add(execution)
        if self._is_giving_up:
            execution.give_up()
        try:
            await ended.wait()
        finally:
            self._runs.discard(execution)

    async def _claim(self, task: Task) -> Task | None:
        """Return the task as this worker's; None: it is someone else's, or nobody's any more."""
        seen: Task | None = task
        while seen and not self.is_closed:
            try:
                if not seen.is_waiting:
                    # A claim may have been written though we were told that it failed.
                    return seen if seen.lease and seen.lease.worker == self._worker else None
                if claimed := await self._engine.claim((seen,), self._worker):
                    self._trouble.end()
                    return claimed[0]
                seen = await self._engine.store.get(task.id)
            except Exception as error:
                self._trouble.begin(error)
                await asyncio.sleep(_RETRY.total_seconds())
        return None

    def _check_tool(self, delivery: Delivery, task: Task) -> None:
        name = task.call.full_name
        if name in self.tools:
            return
        if name not in self._strangers:
            self._strangers.add(name)
            have = ", ".join(sorted(other for other, tool in self.tools.items() if tool.name == task.call.tool))
            logger.warning(
                "Task %s waits for a worker that knows %s; this one knows %s, and leaves it to others",
                task.id,
                name,
                have or "no tool of that name",
            )
        waited = (self._engine.clock() - task.updated_at) / _STRANGER_SHARE
        raise AdmissionBlocked(delivery, f"no {name} here", retry_delay=min(max(waited, _SOONEST), _LATEST))

    def _check_time(self, delivery: Delivery, task: Task) -> None:
        time = not_before(task)
        if time and (left := time - self._engine.clock()) > timedelta(0):
            raise AdmissionBlocked(delivery, "its time has not come", retry_delay=left)

    def _is_expired(self, task: Task) -> bool:
        return task.expires_at is not None and task.expires_at <= self._engine.clock()
