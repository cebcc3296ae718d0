"""Tasks in a dict: for tests, and for servers that may forget on restart."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from datetime import datetime

from coatcheck.errors import InvalidArgument, QuotaExceeded
from coatcheck.store import EVERYONE, Everyone, Query
from coatcheck.stores.waiters import Waiters
from coatcheck.task import Entry, Task

_WORK = object()


class MemoryStore:
    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._unfinished: dict[str, Task] = {}
        self._counts: Counter[str | None] = Counter()
        """How many unfinished tasks each owner has."""
        self._journals: dict[str, list[Entry]] = {}
        self._keys: dict[tuple[str | None, str], str] = {}
        self._waiters = Waiters()

    async def insert(self, task: Task, *, quota: int | None = None) -> Task:
        key = _key(task)
        if key in self._keys:
            return self._tasks[self._keys[key]]
        if task.id in self._tasks:
            raise InvalidArgument(f"Task {task.id} exists already.")
        if quota is not None and self._counts[task.owner] >= quota:
            raise QuotaExceeded(quota, task.owner)
        if key:
            self._keys[key] = task.id
        self._write(task)
        return task

    async def get(
        self,
        task_id: str,
        *,
        owner: str | Everyone | None = EVERYONE,
        alive_at: datetime | None = None,
        newer_than: int = 0,
        timeout: float = 0,
    ) -> Task | None:
        task = self._shown(task_id, owner, alive_at)
        if timeout > 0 and task and task.version <= newer_than:
            await self._sleep(task_id, timeout)
            task = self._shown(task_id, owner, alive_at)
        return task

    async def replace(self, task: Task, entries: Sequence[Entry] = ()) -> bool:
        if not self._is_at(task.id, task.version - 1):
            return False
        if entries:
            self._journals.setdefault(task.id, []).extend(entries)
        self._write(task)
        return True

    async def delete(self, task: Task) -> bool:
        if not self._is_at(task.id, task.version):
            return False
        del self._tasks[task.id]
        self._end(task)
        self._journals.pop(task.id, None)
        if key := _key(task):
            self._keys.pop(key, None)
        self._waiters.wake([task.id])
        return True

    async def list(self, query: Query) -> Sequence[Task]:
        tasks = (self._unfinished if query.is_held else self._tasks).values()
        found = [task for task in tasks if _matches(task, query)]
        return sorted(found, key=lambda task: task.position, reverse=True)[: query.limit]

    async def journal(self, task_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        return self._journals.get(task_id, [])[after : after + limit]

    async def waiting(
        self, tools: Collection[str], *, limit: int, timeout: float, is_for_others: bool = False
    ) -> Sequence[Task]:
        deadline = asyncio.get_running_loop().time() + timeout
        while True:
            found = [
                task
                for task in self._unfinished.values()
                if task.is_waiting and (task.call.full_name in tools) is not is_for_others
            ]
            left = deadline - asyncio.get_running_loop().time()
            if found or left <= 0:
                return sorted(found, key=lambda task: task.position)[:limit]
            await self._sleep(_WORK, left)

    async def overdue(self, now: datetime, *, limit: int) -> Sequence[Task]:
        return [task for task in self._tasks.values() if _is_late(task, now)][:limit]

    def _shown(self, task_id: str, owner: str | Everyone | None, alive_at: datetime | None) -> Task | None:
        task = self._tasks.get(task_id)
        if task is None or (owner is not EVERYONE and task.owner != owner):
            return None
        return None if alive_at and task.expires_at and task.expires_at <= alive_at else task

    async def _sleep(self, key: Hashable, timeout: float) -> None:
        alarm = self._waiters.arm(key, timeout)
        try:
            await alarm
        finally:
            self._waiters.disarm(alarm)

    def _is_at(self, task_id: str, version: int) -> bool:
        kept = self._tasks.get(task_id)
        return kept is not None and kept.version == version

    def _write(self, task: Task) -> None:
        self._tasks[task.id] = task
        if task.status.is_terminal:
            self._end(task)
        else:
            self._counts[task.owner] += task.id not in self._unfinished
            self._unfinished[task.id] = task
        self._waiters.wake([task.id, _WORK] if task.is_waiting else [task.id])

    def _end(self, task: Task) -> None:
        if self._unfinished.pop(task.id, None):
            self._counts -= Counter({task.owner: 1})


def _key(task: Task) -> tuple[str | None, str] | None:
    return None if task.idempotency_key is None else (task.owner, task.idempotency_key)


def _matches(task: Task, query: Query) -> bool:
    return (
        (query.owner is EVERYONE or task.owner == query.owner)
        and (task.lease is not None or not query.is_held)
        and (query.after is None or task.position < query.after)
    )


def _is_late(task: Task, now: datetime) -> bool:
    return bool((task.lease and task.lease.until <= now) or (task.expires_at and task.expires_at <= now))
