"""A real store whose writes can be counted, and can be made to fail."""

from collections.abc import Sequence
from typing import Any

from coatcheck.errors import StoreUnavailable
from coatcheck.stores.memory import MemoryStore
from coatcheck.task import Entry, Task


class FaultyStore(MemoryStore):
    """Counts its operations. After `writes_left` more writes it fails, until that is set again."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = self.reads = 0
        self.writes_left = 1_000_000

    async def insert(self, task: Task, *, quota: int | None = None) -> Task:
        self._count()
        return await super().insert(task, quota=quota)

    async def replace(self, task: Task, entries: Sequence[Entry] = ()) -> bool:
        self._count()
        return await super().replace(task, entries)

    async def delete(self, task: Task) -> bool:
        self._count()
        return await super().delete(task)

    async def get(self, task_id: str, **asked: Any) -> Task | None:
        self.reads += 1
        return await super().get(task_id, **asked)

    def _count(self) -> None:
        if self.writes_left <= 0:
            raise StoreUnavailable("The disk is full; make room.")
        self.writes_left -= 1
        self.writes += 1
