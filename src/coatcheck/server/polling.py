"""Polls of both generations: as cheap as can be, and no more often than the operator allows."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from mcp.shared.exceptions import MCPError

from coatcheck.dialects.words import TOO_MANY, milliseconds
from coatcheck.errors import InvalidArgument
from coatcheck.server.access.rates import Buckets
from coatcheck.server.runtime import Runtime
from coatcheck.task import Status, Task

_BURST = 10.0
_YOUTH = timedelta(milliseconds=100)


class Polls:
    def __init__(self, runtime: Runtime, limit: PollLimit | None) -> None:
        self._runtime, self._limit = runtime, limit

    @property
    def are_counted(self) -> bool:
        return self._limit is not None

    async def poll(self, task_id: str, owner: str | None) -> Task:
        """Return the task as it is; one that has only just begun gets a moment, as most work is quick.

        Raises:
            TaskNotFound: There is none, for this owner.
            MCPError: It was polled too often.
        """
        desk = self._runtime.running.desk
        engine = desk.engine
        task = await desk.get(task_id, owner)
        if self._limit:
            self._limit.check(task)
        if task.status is Status.WORKING:
            youth = (_YOUTH - (engine.clock() - task.created_at)).total_seconds()
            if 0 < youth <= _YOUTH.total_seconds():
                return await engine.settled(task, youth)
        return task


class PollLimit:
    """A limit for clients that poll far faster than they were asked to. Off unless the operator wants it.

    Allows `factor` polls per poll interval of a task, and a burst now and then.
    """

    def __init__(self, factor: float, clock: Callable[[], float] = time.monotonic) -> None:
        if not factor >= 1:
            raise InvalidArgument(f"poll_limit must be at least 1 poll per poll interval, but it is {factor}.")
        self._factor, self._buckets = factor, Buckets(clock)

    def check(self, task: Task) -> None:
        """Count one poll of `task`.

        Raises:
            MCPError: It was one too many; the error says when to come again.
        """
        if self._buckets.take({task.id: (_BURST, self._factor / task.poll_interval.total_seconds())}):
            wait = milliseconds(task.poll_interval)
            message = f"This task is polled too often; poll it every {wait} ms, or listen with subscriptions/listen"
            raise MCPError(TOO_MANY, message, {"retryAfterMs": wait})
