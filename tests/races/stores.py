"""A real store that takes its time, so that anything may come in between."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Any

from coatcheck import Engine, Policy, open_store
from coatcheck.store import Query, Store
from coatcheck.task import Entry, Task
from coatcheck.testing.builders import NOW
from tests.races.loop import the_loop, turns


class SlowStore:
    """Before and after each operation others get their turns, as many as the lots say."""

    def __init__(self, store: Store, chance: Random) -> None:
        self._store, self.chance = store, chance

    async def insert(self, task: Task, *, quota: int | None = None) -> Task:
        await self._turns()
        kept = await self._store.insert(task, quota=quota)
        await self._turns()
        return kept

    async def get(self, task_id: str, **asked: Any) -> Task | None:
        await self._turns()
        kept = await self._store.get(task_id, **asked)
        await self._turns()
        return kept

    async def replace(self, task: Task, entries: Sequence[Entry] = ()) -> bool:
        await self._turns()
        is_written = await self._store.replace(task, entries)
        await self._turns()
        return is_written

    async def delete(self, task: Task) -> bool:
        await self._turns()
        is_deleted = await self._store.delete(task)
        await self._turns()
        return is_deleted

    async def list(self, query: Query) -> Sequence[Task]:
        await self._turns()
        return await self._store.list(query)

    async def journal(self, task_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        await self._turns()
        return await self._store.journal(task_id, after=after, limit=limit)

    async def waiting(
        self, tools: Collection[str], *, limit: int, timeout: float, is_for_others: bool = False
    ) -> Sequence[Task]:
        return await self._store.waiting(tools, limit=limit, timeout=timeout, is_for_others=is_for_others)

    async def overdue(self, now: datetime, *, limit: int) -> Sequence[Task]:
        return await self._store.overdue(now, limit=limit)

    async def _turns(self) -> None:
        await turns(self.chance, 6)


class Lots:
    """The lots of the race that is on, for everything that draws."""

    def __init__(self) -> None:
        self.chance = Random(0)

    @asynccontextmanager
    async def open_engine(
        self, url: str, *, policy: Policy = Policy(), key: str | None = None
    ) -> AsyncGenerator[Engine]:
        """As `coatcheck.open_engine`, on a slow store, and on the loop's time."""
        async with open_store(url, key=key) as store:
            yield Engine(SlowStore(store, self.chance), policy, now)


def now() -> datetime:
    return NOW + timedelta(seconds=the_loop().time())
