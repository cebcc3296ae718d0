"""Tasks in one SQLite file: the smallest store that survives a restart, shared by the processes of one host."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from coatcheck.errors import StoreUnavailable
from coatcheck.store import EVERYONE, Everyone, Query
from coatcheck.stores.codec import Codec
from coatcheck.stores.columns import BEGINNING, microseconds
from coatcheck.stores.sqlite.bell import Bell
from coatcheck.stores.sqlite.file import opened
from coatcheck.stores.sqlite.operations import WORK, Operations, key_of
from coatcheck.stores.sqlite.reader import Reader
from coatcheck.stores.sqlite.writer import Writer
from coatcheck.stores.waiters import Waiters
from coatcheck.task import Entry, Task

_SAFETY_SECONDS = 5.0


class SQLiteStore:
    """Writes are grouped into transactions by a thread of their own; reads are done in place."""

    def __init__(self, path: Path, codec: Codec | None = None) -> None:
        self._path, self._codec = path, codec or Codec()
        self._operations = Operations(self._codec)
        self._waiters = Waiters()
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            opening.enter_context(opened(self._path))
            self._reader = Reader(self._path, self._codec)
            opening.callback(self._reader.close)
            self._reader.check_keys()
            opening.callback(self._waiters.wake_all)
            self._bell = self._hang_bell()
            opening.callback(self._bell.close)
            self._writer = Writer(self._path, on_commit=self._bell.ring, on_loop=self._on_commit)
            opening.push_async_callback(self._writer.close)
            self._seen = self._reader.data_version()
            self._look_again()
            opening.callback(lambda: self._safety.cancel())
            self._open = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    async def insert(self, task: Task, *, quota: int | None = None) -> Task:
        return await self._writer.submit(self._operations.insert(task, quota))

    async def get(
        self,
        task_id: str,
        *,
        owner: str | Everyone | None = EVERYONE,
        alive_at: datetime | None = None,
        newer_than: int = 0,
        timeout: float = 0,
    ) -> Task | None:
        row = task_id, owner, BEGINNING if alive_at is None else microseconds(alive_at)
        while timeout > 0:
            alarm = self._waiters.arm(key_of(task_id), timeout)
            try:
                if self._reader.version(*row) > newer_than:
                    break
                await alarm
            finally:
                self._waiters.disarm(alarm)
            timeout = alarm.seconds_left()  # somebody else's ring may sound like ours
        return self._reader.task(*row)

    async def replace(self, task: Task, entries: Sequence[Entry] = ()) -> bool:
        return await self._writer.submit(self._operations.replace(task, entries))

    async def delete(self, task: Task) -> bool:
        return await self._writer.submit(self._operations.delete(task))

    async def list(self, query: Query) -> Sequence[Task]:
        return self._reader.list(query)

    async def journal(self, task_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        return self._reader.journal(task_id, after, limit)

    async def waiting(
        self, tools: Collection[str], *, limit: int, timeout: float, is_for_others: bool = False
    ) -> Sequence[Task]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            alarm = self._waiters.arm(WORK, deadline - loop.time())
            try:
                found = self._reader.waiting(tools, limit, is_for_others=is_for_others)
                if found or deadline <= loop.time():
                    return found
                await alarm
            finally:
                self._waiters.disarm(alarm)

    async def overdue(self, now: datetime, *, limit: int) -> Sequence[Task]:
        return self._reader.overdue(now, limit)

    def _hang_bell(self) -> Bell:
        folder = self._path.with_name(self._path.name + ".bells")
        try:
            return Bell(folder, self._on_ring)
        except OSError as error:
            raise StoreUnavailable(
                f"Cannot use {folder} to tell other processes of changes: {error.strerror}; choose another path."
            ) from error

    def _on_commit(self, keys: Iterable[int]) -> None:
        self._reader.refresh()
        self._waiters.wake(keys)

    def _on_ring(self, keys: Iterable[int] | None) -> None:
        self._reader.refresh()
        if keys is None:
            self._waiters.wake_all()
        else:
            self._waiters.wake(keys)

    def _look_again(self) -> None:
        """Should a ring ever be lost, nobody sleeps longer than this on what has been committed."""
        self._safety = asyncio.get_running_loop().call_later(_SAFETY_SECONDS, self._look_again)
        self._reader.refresh()
        seen, self._seen = self._seen, self._reader.data_version()
        if seen != self._seen:
            self._waiters.wake_all()
