"""Tasks in PostgreSQL: for any number of processes, on any number of machines."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from itertools import count
from secrets import randbits
from types import TracebackType
from typing import Self

from coatcheck.errors import InvalidArgument
from coatcheck.store import EVERYONE, Everyone, Query
from coatcheck.stores.codec import Codec
from coatcheck.stores.columns import BEGINNING, microseconds
from coatcheck.stores.postgres.batches import Batches, QuickBatches
from coatcheck.stores.postgres.connections import Connections
from coatcheck.stores.postgres.gets import UNCHANGED, Get, Gets
from coatcheck.stores.postgres.inserts import InsertAll, InsertEach, an_insert
from coatcheck.stores.postgres.reader import Reader
from coatcheck.stores.postgres.rows import LARGEST, is_storable, number_of
from coatcheck.stores.postgres.schema import prepare
from coatcheck.stores.postgres.target import read_url
from coatcheck.stores.postgres.watch import Watch
from coatcheck.stores.postgres.writes import DeleteEach, ReplaceAll, ReplaceEach, a_delete, a_replace
from coatcheck.task import Entry, Task


class PostgresStore:
    """Operations that come together go together: one statement for each kind of them."""

    def __init__(self, url: str, codec: Codec) -> None:
        self._target, self._codec = read_url(url), codec
        self._open = AsyncExitStack()
        self._marks = count()
        self._is_calm = False
        """There was no work when it was last looked for."""

    async def __aenter__(self) -> Self:
        target, codec = self._target, self._codec
        self._marks = count(randbits(62))  # drawn here: processes that were forked would go on with the same ones
        await prepare(target, codec)
        async with AsyncExitStack() as opening:
            connections = Connections(target)
            opening.push_async_callback(connections.close)
            self._watch = watch = Watch(connections, target.schema, f"cc.{target.schema}")
            opening.push_async_callback(watch.bell.close)
            self._reader = Reader(connections, target.schema, codec)
            what = target.schema, codec, watch.tell
            self._gets = Batches(connections, Gets(target.schema, codec))
            self._inserts = QuickBatches(connections, InsertAll(*what), Batches(connections, InsertEach(*what)))
            self._replaces = QuickBatches(connections, ReplaceAll(*what), Batches(connections, ReplaceEach(*what)))
            self._deletes = Batches(connections, DeleteEach(target.schema, watch.tell))
            for batches in (self._gets, self._inserts, self._replaces, self._deletes):
                opening.push_async_callback(batches.close)
            await watch.ear.open()
            opening.push_async_callback(watch.ear.close)
            opening.push_async_callback(watch.close)
            connections.expect(is_pooled=not watch.ear.is_hearing)
            self._open = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    async def insert(self, task: Task, *, quota: int | None = None) -> Task:
        if not is_storable(task.id, task.owner, task.call.full_name, task.idempotency_key):
            raise InvalidArgument("PostgreSQL can keep no text with NUL characters or lone surrogates; leave them out.")
        return await self._inserts.submit(an_insert(task, quota, self._codec))

    async def get(
        self,
        task_id: str,
        *,
        owner: str | Everyone | None = EVERYONE,
        alive_at: datetime | None = None,
        newer_than: int = 0,
        timeout: float = 0,
    ) -> Task | None:
        if not is_storable(task_id):
            return None
        scope = None if owner is EVERYONE else number_of(owner)
        shown = task_id, scope, BEGINNING if alive_at is None else microseconds(alive_at)
        newer_than = min(newer_than, LARGEST)
        while timeout > 0:
            with self._watch.for_task(task_id, newer_than, timeout) as alarm:
                await self._watch.ear.attend()
                found = await self._gets.submit(Get(*shown, newer_than))
                if found is not UNCHANGED:
                    return found
                await alarm
            timeout = alarm.seconds_left()  # somebody else's ring may sound like ours
        return await self._gets.submit(Get(*shown))

    async def replace(self, task: Task, entries: Sequence[Entry] = ()) -> bool:
        if not is_storable(task.id):
            return False
        return await self._replaces.submit(a_replace(task, entries, next(self._marks), self._codec))

    async def delete(self, task: Task) -> bool:
        return is_storable(task.id) and await self._deletes.submit(a_delete(task))

    async def list(self, query: Query) -> Sequence[Task]:
        return await self._reader.list(query)

    async def journal(self, task_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        return await self._reader.journal(task_id, after, limit) if is_storable(task_id) else []

    async def waiting(
        self, tools: Collection[str], *, limit: int, timeout: float, is_for_others: bool = False
    ) -> Sequence[Task]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        works = None if is_for_others else frozenset(map(number_of, tools))
        is_calm, self._is_calm = self._is_calm and timeout > 0, False
        while True:
            with self._watch.for_work(works, deadline - loop.time()) as alarm:
                if is_calm:  # or those who bring work would not know that we are here
                    await self._watch.offer()
                found = await self._reader.waiting(tools, limit, is_for_others=is_for_others)
                if found or deadline <= loop.time():
                    return found
                if is_calm:
                    self._is_calm = True
                    await alarm
                is_calm = not is_calm

    async def overdue(self, now: datetime, *, limit: int) -> Sequence[Task]:
        return await self._reader.overdue(now, limit)
