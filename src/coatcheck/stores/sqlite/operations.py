"""The writes, as operations for the writer: each all or nothing, whatever else is in its transaction."""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Sequence

from coatcheck.errors import InvalidArgument, QuotaExceeded
from coatcheck.stores.codec import Codec
from coatcheck.stores.columns import microseconds, state_of
from coatcheck.stores.sqlite.writer import Keys, Operation
from coatcheck.task import Entry, Task

WORK = 0
"""The key of all tasks that need a worker; every task has one of its own besides."""

_COUNTED_EACH_TIME = 256
_INSERT = (
    "insert into task (version, state, lease_until, expires_at, sealed_by, body, number, id, owner, tool,"
    " idempotency_key, created_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UNFINISHED = "select count(*) from (select 1 from task where owner is ? and (state < 3) = 1 limit ?)"
_REPLACE = (
    "update task set version = ?, state = ?, lease_until = ?, expires_at = ?, sealed_by = ?, body = ?"
    " where number = ? and id = ? and version = ?"
)
_DELETE = "delete from task where number = ? and id = ? and version = ?"
_APPEND = "insert into entry (task_id, number, sealed_by, body) values (?, ?, ?, ?)"
_KEPT = "select id, owner, body from task where coalesce('+' || owner, '-') = ? and idempotency_key = ?"


class Operations:
    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._left: dict[str | None, int] = {}
        """How many tasks an owner may add before its unfinished ones are counted again."""

    def insert(self, task: Task, quota: int | None) -> Operation[Task]:
        created_at = microseconds(task.created_at)
        names = (number_of(task.id), task.id, task.owner, task.call.full_name, task.idempotency_key)
        row = (*self._columns(task), *names, created_at)
        keys = _keys(task)

        def operation(db: sqlite3.Cursor) -> tuple[Task, Keys]:
            if task.idempotency_key is not None and (kept := self._kept(db, task)):
                return kept, ()
            if quota is not None:
                self._check_quota(db, task.owner, quota)
            try:
                db.execute(_INSERT, row)
            except sqlite3.IntegrityError:
                raise InvalidArgument(f"Task {task.id} exists already.") from None
            return task, keys

        return operation

    def replace(self, task: Task, entries: Sequence[Entry]) -> Operation[bool]:
        row = (*self._columns(task), number_of(task.id), task.id, task.version - 1)
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

    def delete(self, task: Task) -> Operation[bool]:
        def operation(db: sqlite3.Cursor) -> tuple[bool, Keys]:
            if db.execute(_DELETE, (number_of(task.id), task.id, task.version)).rowcount == 0:
                return False, ()
            db.execute("delete from entry where task_id = ?", (task.id,))
            return True, (key_of(task.id),)

        return operation

    def _check_quota(self, db: sqlite3.Cursor, owner: str | None, quota: int) -> None:
        """Refuse one task too many.

        Counting thousands for each new one would cost more than all the rest. So a large quota is counted anew only
        when half of what was left is used up: exact for one process, and near enough for several.
        """
        left = self._left.pop(owner, 0)
        if left == 0:
            (count,) = db.execute(_UNFINISHED, (owner, quota)).fetchone()
            if count >= quota:
                raise QuotaExceeded(quota, owner)
            left = max((quota - count) // 2, 1) if quota > _COUNTED_EACH_TIME else 1
        if left > 1:
            self._left[owner] = left - 1

    def _kept(self, db: sqlite3.Cursor, task: Task) -> Task | None:
        """Return the task of the same owner and idempotency key."""
        scope = "-" if task.owner is None else f"+{task.owner}"
        row = db.execute(_KEPT, (scope, task.idempotency_key)).fetchone()
        return self._codec.load(row[2], row[0], row[1]) if row else None

    def _line(self, task: Task, number: int, entry: Entry) -> tuple[object, ...]:
        return task.id, number, self._codec.key_id, self._codec.dump_entry(entry, task, number)

    def _columns(self, task: Task) -> tuple[object, ...]:
        return (
            task.version,
            state_of(task),
            microseconds(task.lease.until) if task.lease else None,
            microseconds(task.expires_at) if task.expires_at else None,
            self._codec.key_id,
            self._codec.dump(task),
        )


def _keys(task: Task) -> Keys:
    return (key_of(task.id), WORK) if task.is_waiting else (key_of(task.id),)


def number_of(task_id: str) -> int:
    """Return the number of a task's row, by which it is found without an index.

    16 bits of it stand for the prefix of the id, so that tasks made together lie together; 47 for the whole id. Two
    ids of a million share a number with a chance of one in three million; the second is refused as if it existed.
    """
    raw = task_id.encode("utf-8", "surrogatepass")
    whole = int.from_bytes(hashlib.blake2b(raw, digest_size=6).digest(), "little") >> 1
    return (zlib.crc32(raw[:4]) & 0xFFFF) << 47 | whole


def key_of(task_id: str) -> int:
    """Return a number for the bell. Two ids may share one: that wakes somebody for nothing, no more."""
    return zlib.crc32(task_id.encode("utf-8", "surrogatepass")) + 1
