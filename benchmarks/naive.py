"""The baseline: aiosqlite, one transaction an operation, on the same schema with the same codec and durability.

`NaiveStore` uses it as its README does, `BestStore` in the fewest trips to its thread that one can make.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, cast

import aiosqlite

from benchmarks.rows import INSERT, row
from coatcheck.engine import Engine
from coatcheck.policy import Policy
from coatcheck.store import Store
from coatcheck.stores.codec import Codec
from coatcheck.stores.sqlite.file import prepare
from coatcheck.task import Task

_SELECT = "select owner, body from task where id = ?"
# `wal_autocheckpoint` stays at SQLite's default; the caches are those our store gives itself.
_PRAGMAS = ("synchronous = full", "cache_size = -16384", "mmap_size = 2147483648")


class NaiveStore:
    """As much of a store as `Engine.submit` and `Engine.get` use: execute and commit; execute, fetch and close."""

    def __init__(self, path: Path, isolation_level: Literal["DEFERRED"] | None = "DEFERRED") -> None:
        prepare(path)
        self._codec = Codec()
        self._db = aiosqlite.connect(path, isolation_level=isolation_level)
        self._transaction = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self._db
        for pragma in _PRAGMAS:
            await self._db.execute_fetchall(f"pragma {pragma}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._db.close()

    async def insert(self, task: Task, *, quota: int | None = None) -> Task:
        async with self._transaction:  # or one caller's commit would be another's too
            await self._db.execute(INSERT, row(task, self._codec))
            await self._db.commit()
        return task

    async def get(self, task_id: str, **_: Any) -> Task | None:
        for owner, body in await self._rows(task_id):
            return self._codec.load(body, task_id, owner)
        return None

    async def _rows(self, task_id: str) -> Iterable[sqlite3.Row]:
        async with self._db.execute(_SELECT, (task_id,)) as cursor:
            return await cursor.fetchall()


class BestStore(NaiveStore):
    """One trip an operation: every statement commits by itself, and brings its rows along."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, isolation_level=None)

    async def insert(self, task: Task, *, quota: int | None = None) -> Task:
        await self._db.execute_fetchall(INSERT, row(task, self._codec))
        return task

    async def _rows(self, task_id: str) -> Iterable[sqlite3.Row]:
        return await self._db.execute_fetchall(_SELECT, (task_id,))


def naive_engine(store: NaiveStore, policy: Policy) -> Engine:
    return Engine(cast("Store", store), policy)
