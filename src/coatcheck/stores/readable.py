"""Tasks that cannot be read are passed over and logged once: one of many must not hide the others."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from coatcheck.errors import StoreError
from coatcheck.stores.codec import Codec
from coatcheck.task import Task

logger = logging.getLogger("coatcheck")


class Readable:
    """For stores whose reads are awaited."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._unreadable: set[str] = set()

    @property
    def has_passed_over(self) -> bool:
        """Whether there ever was one that could not be read."""
        return bool(self._unreadable)

    def load(self, body: bytes, task_id: str, owner: str | None) -> Task | None:
        """Return one of many tasks, or None if it cannot be read."""
        try:
            return self._codec.load(body, task_id, owner)
        except StoreError as error:
            if task_id not in self._unreadable:
                self._unreadable.add(task_id)
                logger.error("Task %s is passed over: %s", task_id, error)
            return None

    async def first(self, limit: int, find: Callable[[int], Awaitable[Sequence[Task]]]) -> Sequence[Task]:
        """Find `limit` tasks that can be read, however many that cannot be stand before them."""
        while True:
            unreadable = len(self._unreadable)
            found = await find(limit + unreadable)
            if len(self._unreadable) == unreadable:
                return found[:limit]
