"""`DocketWorker`: tasks are carried by Docket, where a team runs it; the row stays the truth."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import msgspec

from coatcheck.couriers.carrier import Carrier
from coatcheck.couriers.connection import new_docket
from coatcheck.couriers.deliveries import Deliveries
from coatcheck.couriers.outbox import Outbox
from coatcheck.couriers.schedule import with_time
from coatcheck.couriers.trouble import Trouble
from coatcheck.engine import Engine
from coatcheck.errors import InvalidArgument
from coatcheck.liveness import name_worker
from coatcheck.payload import Payload
from coatcheck.policy import Duration, duration, lifetime
from coatcheck.sweeping import Sweeper
from coatcheck.task import NOTHING, Task
from coatcheck.tool import Tool

logger = logging.getLogger("coatcheck")

_MOST_SLOTS = 200
"""Docket takes a connection for each task that it starts; thousands at once are more than a process or Redis has."""
_PARTING_SECONDS = 3.0
"""How long Docket has to take leave of a Redis that may not be there."""


class DocketWorker:
    """Does what `Worker` does, with Docket between those who hand tasks in and those who run them.

    Docket brings ids to workers: its are the queue, the redelivery, the schedule and the limits. Whether there is
    anything to do is read from the row, and only who claims it there runs it.
    """

    def __init__(
        self,
        engine: Engine,
        tools: Iterable[Tool],
        url: str,
        *,
        slots: int = 64,
        grace: Duration = 10.0,
        lease: Duration = 30.0,
    ) -> None:
        """`url` is that of Docket's Redis, with `?prefix=` for a docket of another name than coatcheck; and with
        `per_tool` and `per_owner` for how many tasks of a tool or an owner may run at once, on all workers together.

        `slots=0` hands tasks in, and runs none; more than 200 count as 200, for more there are more workers. `lease`:
        how long Docket waits for a sign of life before it brings an id to another worker.
        """
        if slots < 0:
            raise InvalidArgument(f"slots must be 0 or more, but it is {slots}.")
        if slots > _MOST_SLOTS:
            logger.info("With Docket a process runs up to %d tasks at once, not %d", _MOST_SLOTS, slots)
            slots = _MOST_SLOTS
        self.name = name_worker()
        self._engine, self._grace = engine, duration("grace", grace)
        self._tools: dict[str, Tool] = {}
        self._docket, limits = new_docket(url, slots)
        self._deliveries = Deliveries(engine, self.name, limits)
        self._carrier = Carrier(
            self._docket, self._deliveries, name=self.name, slots=slots, lease=duration("lease", lease)
        )
        self._outbox = Outbox(self._docket, engine, lambda: self._deliveries.tools, self._carrier.fetch)
        self._runs_tasks = slots > 0
        self._is_stopping = True
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool, *, replace: bool = False) -> None:
        """Take one more tool, also while running; `replace` one of the same name, if there is one."""
        if tool.name in self._tools and not replace:
            raise InvalidArgument(f"There is a tool {tool.name!r} already; give this one another name.")
        self._tools[tool.name] = tool
        self._renew()

    def remove(self, name: str) -> None:
        """Run no more tasks of this tool than those under way; what waits is for others."""
        self._tools.pop(name, None)
        self._renew()

    async def __aenter__(self) -> Self:
        self._is_stopping = False
        self._deliveries.context = contextvars.copy_context()
        self._stack = AsyncExitStack()
        await self._stack.enter_async_context(self._docket)
        self._loops = [asyncio.create_task(loop()) for loop in (self._outbox.send, self._outbox.look, self._sweep)]
        self._carrying = asyncio.create_task(self._carrier.run()) if self._runs_tasks else None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def submit(
        self,
        tool: str,
        arguments: Mapping[str, Any] | Payload = NOTHING,
        *,
        owner: str | None = None,
        ttl: Duration | msgspec.UnsetType | None = msgspec.UNSET,
        idempotency_key: str | None = None,
        meta: Mapping[str, Any] | Payload = NOTHING,
        made: Callable[[Task], None] | None = None,
        parent: Task | None = None,
        not_before: datetime | None = None,
    ) -> Task:
        """Make a task for one of this worker's tools, durable when this returns, and have Docket bring it to a worker.

        `made` is told of it before it starts here. `parent` is the task whose work makes it. `not_before` is when it
        may start; its ttl runs meanwhile.

        Raises:
            InvalidArgument: There is no such tool, or a wish cannot be met.
            QuotaExceeded: The owner has too many unfinished tasks.
        """
        known = self._tools.get(tool)
        if known is None:
            have = ", ".join(sorted(self._tools)) or "none"
            raise InvalidArgument(f"There is no tool {tool!r} here; there is: {have}.")
        terms = known.terms if ttl is msgspec.UNSET else msgspec.structs.replace(known.terms, ttl=ttl)
        if not_before:
            meta = with_time(meta, not_before)
            life = lifetime(self._engine.policy, terms)
            if life and not_before - self._engine.clock() >= life:
                raise InvalidArgument(f"The task may not start before it has expired; give it a ttl above {life}.")
        task_id = self._engine.new_id()
        wishes: dict[str, Any] = {"owner": owner, "idempotency_key": idempotency_key, "meta": meta, "parent": parent}
        task = await self._engine.submit(tool, arguments, terms=terms, task_id=task_id, **wishes)
        if made:
            made(task)
        if task.id == task_id and not self._is_stopping:  # else it is an earlier call's, and Docket has had it
            self._outbox.put(task)
        return task

    async def cancel(self, task_id: str, owner: str | None = None, reason: str | None = None) -> Task:
        """Cancel at once, as `Engine.cancel` does, and spare Docket the rest of its way, if it can be told.

        Raises:
            AlreadyFinished: The task is terminal.
        """
        task = await self._engine.cancel(task_id, owner, reason)
        if not self._is_stopping:
            self._outbox.take_back(task_id)
        return task

    async def stop(self) -> None:
        """Take no more, give running work its grace, then hand it to others, or fail it if it may not be run again."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._carrier.leave()
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        left = await self._deliveries.close(self._grace.total_seconds())
        if self._carrying:
            await asyncio.wait((self._carrying,), timeout=_PARTING_SECONDS)
            self._carrying.cancel()
            await asyncio.gather(self._carrying, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(_PARTING_SECONDS):
                await self._outbox.close(left)
        await self._stack.aclose()

    async def _sweep(self) -> None:
        sweeper, trouble = Sweeper(self._engine), Trouble("Cannot look after lost and expired tasks")
        while True:
            try:
                await sweeper.sweep()
                trouble.end()
            except Exception as error:
                trouble.begin(error)
            await sweeper.rest()

    def _renew(self) -> None:
        self._deliveries.tools = {name: tool for tool in self._tools.values() for name in tool.full_names}
        self._outbox.look_anew()
