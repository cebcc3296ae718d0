"""Tasks in one SQLite file: the smallest store that survives a restart, shared by the processes of one host."""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import zlib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from coatcheck.errors import InvalidArgument, KeyRefused, QuotaExceeded, StoreError
from coatcheck.store import EVERYONE, Query
from coatcheck.stores.codec import Codec, microseconds
from coatcheck.stores.sqlite.bell import Bell
from coatcheck.stores.sqlite.file import connect, explain, prepare
from coatcheck.stores.sqlite.writer import Keys, Operation, Writer
from coatcheck.stores.waiters import Waiters
from coatcheck.task import Entry, Position, Task

logger = logging.getLogger("coatcheck")

_WORK = 0
_WAITING, _HELD, _PARKED, _FINISHED = range(4)
_SAFETY_SECONDS = 5.0
_INSERT = (
    "insert into task (version, state, lease_until, expires_at, sealed_by, body, id, owner, tool, idempotency_key,"
    " created_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_AT_QUOTA = "select 1 from task where owner is ? and (state < 3) = 1 limit 1 offset ?"
_REPLACE = (
    "update task set version = ?, state = ?, lease_until = ?, expires_at = ?, sealed_by = ?, body = ?"
    " where id = ? and version = ?"
)
_APPEND = "insert into entry (task_id, number, sealed_by, body) values (?, ?, ?, ?)"
_KEPT = "select id, owner, body from task where coalesce('+' || owner, '-') = ? and idempotency_key = ?"
_NEWEST_FIRST = "order by created_at desc, id desc"
_OLDEST_FIRST = "order by created_at, id"
_MOST_BRANCHES = 250  # SQLite allows 500 in a compound select
_Range = tuple[str, tuple[object, ...]]
"""A condition that one index answers in order, and its values."""
_KEY_IDS = (  # hops from one id to the next, where `distinct` would read the whole index
    "with recursive k(x) as (select min(sealed_by) from {0} where sealed_by is not null union all"
    " select (select min(sealed_by) from {0} where sealed_by > x) from k where x is not null)"
    " select x from k where x is not null"
)


class SQLiteStore:
    """Writes are grouped into transactions by a thread of their own; reads take microseconds and are done in place."""

    def __init__(self, path: Path, codec: Codec | None = None) -> None:
        self._path, self._codec = path, codec or Codec()
        self._waiters = Waiters()
        self._unreadable: set[str] = set()

    async def __aenter__(self) -> Self:
        prepare(self._path)
        self._reader = connect(self._path)
        self._reader.execute("pragma query_only = 1")
        self._reader.execute("pragma mmap_size = 2147483648")  # only readers map the file: a stray write cannot hurt it
        self._check_keys()
        self._bell = Bell(self._path.with_name(self._path.name + ".bells"), self._on_ring)
        self._writer = Writer(self._path, on_commit=self._bell.ring, on_loop=self._waiters.wake)
        self._seen = self._data_version()
        self._safety = asyncio.get_running_loop().call_later(_SAFETY_SECONDS, self._look_again)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._safety.cancel()
        await self._writer.close()
        self._bell.close()
        self._waiters.wake_all()
        self._reader.close()

    async def insert(self, task: Task, *, quota: int | None = None) -> Task:
        return await self._writer.submit(self._insert(task, quota))

    async def get(self, task_id: str, *, newer_than: int = 0, timeout: float = 0) -> Task | None:
        if timeout > 0:
            alarm = self._waiters.arm(_key(task_id), timeout)
            try:
                if self._version(task_id) <= newer_than:
                    await alarm
            finally:
                self._waiters.disarm(alarm)
        return self._read(task_id)

    async def replace(self, task: Task, entries: Sequence[Entry] = ()) -> bool:
        return await self._writer.submit(self._replace(task, entries))

    async def delete(self, task: Task) -> bool:
        return await self._writer.submit(_delete(task))

    async def list(self, query: Query) -> Sequence[Task]:
        ranges = [_older_than(query.after, index_range) for index_range in _index_ranges(query)]
        return self._best_of(ranges, _NEWEST_FIRST, query.limit)

    async def journal(self, task_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        rows = self._rows(
            "select owner, entry.number, entry.body from entry join task on id = task_id"
            " where task_id = ? and entry.number > ? order by entry.number limit ?",
            (task_id, after, limit),
        )
        return [self._codec.load_entry(body, task_id, owner, number) for owner, number, body in rows]

    async def waiting(self, tools: Collection[str], *, limit: int, timeout: float) -> Sequence[Task]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            alarm = self._waiters.arm(_WORK, deadline - loop.time())
            try:
                found = self._oldest_waiting(list(tools), limit)
                if found or deadline <= loop.time():
                    return found
                await alarm
            finally:
                self._waiters.disarm(alarm)

    async def overdue(self, now: datetime, *, limit: int) -> Sequence[Task]:
        at = microseconds(now)
        late = self._tasks("where lease_until <= ? limit ?", at, limit)
        expired = self._tasks("where expires_at <= ? limit ?", at, limit)
        return list({task.id: task for task in (*expired, *late)}.values())[:limit]

    # Operations, run by the writer

    def _insert(self, task: Task, quota: int | None) -> Operation[Task]:
        row = (*self._columns(task), *_fixed_columns(task))

        def operation(db: sqlite3.Cursor) -> tuple[Task, Keys]:
            if task.idempotency_key is not None and (kept := self._kept(db, task)):
                return kept, ()
            if quota is not None and db.execute(_AT_QUOTA, (task.owner, quota - 1)).fetchone():
                raise QuotaExceeded(quota)
            try:
                db.execute(_INSERT, row)
            except sqlite3.IntegrityError:
                raise InvalidArgument(f"Task {task.id} exists already.") from None
            return task, _keys(task)

        return operation

    def _kept(self, db: sqlite3.Cursor, task: Task) -> Task | None:
        """Return the task of the same owner and idempotency key."""
        scope = "-" if task.owner is None else f"+{task.owner}"
        row = db.execute(_KEPT, (scope, task.idempotency_key)).fetchone()
        return self._codec.load(row[2], row[0], row[1]) if row else None

    def _replace(self, task: Task, entries: Sequence[Entry]) -> Operation[bool]:
        row = (*self._columns(task), task.id, task.version - 1)
        first = task.entries - len(entries) + 1
        lines = [self._line(task, number, entry) for number, entry in enumerate(entries, start=first)]

        def operation(db: sqlite3.Cursor) -> tuple[bool, Keys]:
            if db.execute(_REPLACE, row).rowcount == 0:
                return False, ()
            return True, _keys(task)

        def with_entries(db: sqlite3.Cursor) -> tuple[bool, Keys]:
            db.execute("savepoint entries")
            try:
                written, keys = operation(db)
                if written:
                    db.executemany(_APPEND, lines)
            except BaseException:
                db.execute("rollback to entries")
                raise
            finally:
                db.execute("release entries")
            return written, keys

        return with_entries if lines else operation

    def _line(self, task: Task, number: int, entry: Entry) -> tuple[object, ...]:
        return task.id, number, self._codec.key_id, self._codec.dump_entry(entry, task, number)

    def _columns(self, task: Task) -> tuple[object, ...]:
        return (
            task.version,
            _state(task),
            microseconds(task.lease.until) if task.lease else None,
            microseconds(task.expires_at) if task.expires_at else None,
            self._codec.key_id,
            self._codec.dump(task),
        )

    # Reads, done in place

    def _read(self, task_id: str) -> Task | None:
        rows = self._rows("select owner, body from task where id = ?", (task_id,))
        return self._codec.load(rows[0][1], task_id, rows[0][0]) if rows else None

    def _version(self, task_id: str) -> float:
        """Return the kept version without reading the rest; what is gone is newer than anything."""
        rows = self._rows("select version from task where id = ?", (task_id,))
        return rows[0][0] if rows else math.inf

    def _oldest_waiting(self, tools: Sequence[str], limit: int) -> Sequence[Task]:
        found: list[Task] = []
        for first in range(0, len(tools), _MOST_BRANCHES):
            some = tools[first : first + _MOST_BRANCHES]
            found += self._best_of([("state = 0 and tool = ?", (tool,)) for tool in some], _OLDEST_FIRST, limit)
        return sorted(found, key=lambda task: task.position)[:limit]

    def _best_of(self, ranges: Sequence[_Range], order: str, limit: int) -> Sequence[Task]:
        """Read the first tasks of several index ranges at once: each in order, none further than needed."""
        branch = "select * from (select number from task where {} {} limit {})"
        numbers = " union all ".join(branch.format(condition, order, int(limit)) for condition, _ in ranges)
        values = [value for _, values in ranges for value in values]
        return self._tasks(f"where number in ({numbers}) {order} limit ?", *values, limit)

    def _tasks(self, where: str, *values: object) -> list[Task]:
        rows = self._rows(f"select id, owner, body from task {where}", values)
        return [task for row in rows if (task := self._load(*row))]

    def _load(self, task_id: str, owner: str | None, body: bytes) -> Task | None:
        """Return one of many tasks. One that cannot be read must not hide the others."""
        try:
            return self._codec.load(body, task_id, owner)
        except StoreError as error:
            if task_id not in self._unreadable:
                self._unreadable.add(task_id)
                logger.error("Task %s is passed over: %s", task_id, error)
            return None

    def _rows(self, statement: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        try:
            return self._reader.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise explain(error, self._path) from error

    def _on_ring(self, keys: Iterable[int] | None) -> None:
        if keys is None:
            self._waiters.wake_all()
        else:
            self._waiters.wake(keys)

    def _look_again(self) -> None:
        """Should a ring ever be lost, nobody sleeps longer than this on what has been committed."""
        self._safety = asyncio.get_running_loop().call_later(_SAFETY_SECONDS, self._look_again)
        seen, self._seen = self._seen, self._data_version()
        if seen != self._seen:
            self._waiters.wake_all()

    def _data_version(self) -> int:
        return self._rows("pragma data_version", ())[0][0]

    def _check_keys(self) -> None:
        """Refuse at once what could not be read later."""
        used = (row[0] for table in ("task", "entry") for row in self._rows(_KEY_IDS.format(table), ()))
        missing = set(used) - self._codec.key_ids
        if missing:
            self._reader.close()
            raise KeyRefused(
                f"{self._path} holds tasks sealed with key {', '.join(sorted(missing))}, which is not among the keys"
                " given; set COATCHECK_KEY to it, or add it after the current key, separated by a comma."
            )


def _delete(task: Task) -> Operation[bool]:
    def operation(db: sqlite3.Cursor) -> tuple[bool, Keys]:
        if db.execute("delete from task where id = ? and version = ?", (task.id, task.version)).rowcount == 0:
            return False, ()
        db.execute("delete from entry where task_id = ?", (task.id,))
        return True, (_key(task.id),)

    return operation


def _fixed_columns(task: Task) -> tuple[object, ...]:
    return task.id, task.owner, task.call.tool, task.idempotency_key, microseconds(task.created_at)


def _index_ranges(query: Query) -> list[_Range]:
    """Say which ranges of which index hold the answer."""
    if query.is_held:
        held = "lease_until is not null"
        return [(held, ())] if query.owner is EVERYONE else [(f"{held} and owner is ?", (query.owner,))]
    if query.owner is EVERYONE:
        return [("1", ())]
    return [(f"owner is ? and (state < 3) = {unfinished}", (query.owner,)) for unfinished in (0, 1)]


def _older_than(after: Position | None, index_range: _Range) -> _Range:
    if after is None:
        return index_range
    condition, values = index_range
    return f"{condition} and (created_at, id) < (?, ?)", (*values, microseconds(after[0]), after[1])


def _state(task: Task) -> int:
    if task.status.is_terminal:
        return _FINISHED
    if task.lease:
        return _HELD
    return _WAITING if task.is_waiting else _PARKED


def _keys(task: Task) -> Keys:
    return (_key(task.id), _WORK) if task.is_waiting else (_key(task.id),)


def _key(task_id: str) -> int:
    """Return a number for the bell. Two ids may share one: that wakes somebody for nothing, no more."""
    return zlib.crc32(task_id.encode()) + 1
