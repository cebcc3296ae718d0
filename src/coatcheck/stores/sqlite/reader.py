"""The reads, done in place: a row costs microseconds, less than handing the work to a thread."""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

from coatcheck.errors import KeyRefused, StoreError
from coatcheck.store import EVERYONE, Everyone, Query
from coatcheck.stores.codec import Codec
from coatcheck.stores.columns import microseconds
from coatcheck.stores.sqlite.file import connect, explain
from coatcheck.stores.sqlite.operations import number_of
from coatcheck.task import Entry, Position, Task

logger = logging.getLogger("coatcheck")

_NEWEST_FIRST, _OLDEST_FIRST = "desc", "asc"
_MOST_BRANCHES = 250  # SQLite allows 500 in a compound select
_Range = tuple[str, tuple[object, ...]]
"""A condition that one index answers in order, and its values."""
_Row = tuple[Any, ...]
_ID, _CREATED_AT = 0, 3
_by_position = itemgetter(_CREATED_AT, _ID)
_KEY_IDS = (  # hops from one id to the next, where `distinct` would read the whole index
    "with recursive k(x) as (select min(sealed_by) from {0} where sealed_by is not null union all"
    " select (select min(sealed_by) from {0} where sealed_by > x) from k where x is not null)"
    " select x from k where x is not null"
)
_IS_SHOWN = "id = ? and (expires_at > ? or expires_at is null)"
_OF_ALL, _OF_OWNER = (
    {column: statement.format(column) for column in ("body", "version")}
    for statement in (
        f"select owner, {{}} from task where number = ? and {_IS_SHOWN}",
        # Where there is no such row its neighbour is looked at instead: it takes as long as if there were one.
        f"select case when {_IS_SHOWN} and owner is ? then {{}} end from task where number ="
        " coalesce((select min(number) from task where number >= ?), (select max(number) from task))",
    )
)
_WAITING_TOOLS = (
    "with recursive k(x) as (select min(tool) from task where state = 0 union all"
    " select (select min(tool) from task where state = 0 and tool > x) from k where x is not null)"
    " select x from k where x is not null"
)


class Reader:
    def __init__(self, path: Path, codec: Codec) -> None:
        self._path, self._codec = path, codec
        self._unreadable: set[str] = set()
        self._db = connect(path)
        self._cursor = self._db.cursor()
        self._loop = asyncio.get_running_loop()
        self._reads = 0
        self._db.execute("pragma query_only = 1")
        self._db.execute("pragma mmap_size = 2147483648")  # only readers map the file: a stray write cannot hurt it

    def close(self) -> None:
        self._reads = 0
        with suppress(sqlite3.Error):
            self._cursor.close()  # or its last statement would keep the file open
        self._db.close()

    def refresh(self) -> None:
        """Let the next read see all that has been committed. To be called before anyone is told of a commit."""
        if self._reads > 1:
            with suppress(sqlite3.Error):
                self._cursor.execute("commit")
        self._reads = 0

    def task(self, task_id: str, owner: str | Everyone | None, alive_at: int) -> Task | None:
        whose, body = self._one("body", task_id, owner, alive_at)
        return None if body is None else self._codec.load(body, task_id, whose)

    def version(self, task_id: str, owner: str | Everyone | None, alive_at: int) -> float:
        """Return the kept version without reading the rest; what is not there is newer than anything."""
        _, version = self._one("version", task_id, owner, alive_at)
        return math.inf if version is None else version

    def list(self, query: Query) -> Sequence[Task]:
        ranges = [_older_than(query.after, index_range) for index_range in _index_ranges(query)]
        return self._readable(query.limit, lambda limit: self._best_of(ranges, _NEWEST_FIRST, limit))

    def journal(self, task_id: str, after: int, limit: int) -> Sequence[Entry]:
        rows = self._rows(
            "select owner, entry.number, entry.body from task join entry on task_id = id"
            " where task.number = ? and id = ? and entry.number > ? order by entry.number limit ?",
            (number_of(task_id), task_id, after, limit),
        )
        return [self._codec.load_entry(body, task_id, owner, number) for owner, number, body in rows]

    def waiting(self, tools: Collection[str], limit: int, *, is_for_others: bool) -> Sequence[Task]:
        if is_for_others:
            tools = {tool for (tool,) in self._rows(_WAITING_TOOLS, ())}.difference(tools)
        return self._readable(limit, lambda limit: self._waiting(tools, limit))

    def overdue(self, now: datetime, limit: int) -> Sequence[Task]:
        return self._readable(limit, lambda limit: self._overdue(microseconds(now), limit))

    def data_version(self) -> int:
        """Return a number that changes with every commit of anyone."""
        return self._rows("pragma data_version", ())[0][0]

    def check_keys(self) -> None:
        """Refuse at once what could not be read later."""
        used = (row[0] for table in ("task", "entry") for row in self._rows(_KEY_IDS.format(table), ()))
        missing = set(used) - self._codec.key_ids
        if missing:
            raise KeyRefused(
                f"{self._path} holds tasks sealed with key {', '.join(sorted(missing))}, which is not among the keys"
                " given; set COATCHECK_KEY to it, or add it after the current key, separated by a comma."
            )

    def _waiting(self, tools: Collection[str], limit: int) -> Sequence[Task]:
        found: list[Task] = []
        ranges = [("state = 0 and tool = ?", (tool,)) for tool in tools]
        for first in range(0, len(ranges), _MOST_BRANCHES):
            found += self._best_of(ranges[first : first + _MOST_BRANCHES], _OLDEST_FIRST, limit)
        return sorted(found, key=lambda task: task.position)[:limit]

    def _overdue(self, now: int, limit: int) -> Sequence[Task]:
        late = self._tasks("where lease_until <= ? limit ?", now, limit)
        expired = self._tasks("where expires_at <= ? limit ?", now, limit)
        return [*{task.id: task for task in (*expired, *late)}.values()]

    def _readable(self, limit: int, find: Callable[[int], Sequence[Task]]) -> Sequence[Task]:
        """Find `limit` tasks that can be read, however many that cannot be stand before them."""
        while True:
            unreadable = len(self._unreadable)
            found = find(limit + unreadable)
            if len(self._unreadable) == unreadable:
                return found[:limit]

    def _best_of(self, ranges: Sequence[_Range], direction: str, limit: int) -> Sequence[Task]:
        """Read the first tasks of several index ranges at once: each in order, none further than needed.

        The indexes know when tasks were made, but not their ids. Those matter at the end of the page only.
        """
        rows = self._first_of(ranges, ("created_at",), direction, limit + 1)
        if len(rows) > limit and rows[limit - 1][_CREATED_AT] == rows[limit][_CREATED_AT]:
            rows = self._first_of(ranges, ("created_at", "id"), direction, limit)
        rows.sort(key=_by_position, reverse=direction == _NEWEST_FIRST)
        return self._loaded(rows[:limit])

    def _first_of(self, ranges: Sequence[_Range], keys: Sequence[str], direction: str, limit: int) -> list[_Row]:
        branches = " union all ".join(
            f"select number, {', '.join(keys)} from task where {where}" for where, _ in ranges
        )
        order = ", ".join(f"{key} {direction}" for key in keys)
        return self._rows(
            "select id, owner, body, created_at from"
            f" (select number as found from ({branches} order by {order} limit {int(limit)}))"
            " cross join task on number = found",
            [value for _, values in ranges for value in values],
        )

    def _tasks(self, where: str, *values: object) -> list[Task]:
        return self._loaded(self._rows(f"select id, owner, body from task {where}", values))

    def _loaded(self, rows: Sequence[_Row]) -> list[Task]:
        return [task for row in rows if (task := self._load(*row[:3]))]

    def _load(self, task_id: str, owner: str | None, body: bytes) -> Task | None:
        """Return one of many tasks. One that cannot be read must not hide the others."""
        try:
            return self._codec.load(body, task_id, owner)
        except StoreError as error:
            if task_id not in self._unreadable:
                self._unreadable.add(task_id)
                logger.error("Task %s is passed over: %s", task_id, error)
            return None

    def _one(self, column: str, task_id: str, owner: str | Everyone | None, alive_at: int) -> tuple[str | None, Any]:
        """Read whose a row is, and one column of it, if it may be seen; else there is None, and no body is read."""
        number = number_of(task_id)
        if owner is EVERYONE:
            rows = self._rows(_OF_ALL[column], (number, task_id, alive_at))
            return rows[0] if rows else (None, None)
        rows = self._rows(_OF_OWNER[column], (task_id, alive_at, owner, number))
        return owner, rows[0][0] if rows else None

    def _rows(self, statement: str, values: Sequence[object]) -> list[_Row]:
        try:
            self._share_snapshot()
            return self._cursor.execute(statement, values).fetchall()
        except (UnicodeEncodeError, OverflowError):
            return []  # what could not have been written cannot be found
        except sqlite3.Error as error:
            raise explain(error, self._path) from error

    def _share_snapshot(self) -> None:
        """Let the reads of one turn of the loop share a snapshot: to take one costs as much as to read a row.

        The first read takes none for the others, as it may be the only one.
        """
        self._reads += 1
        if self._reads == 1:
            self._loop.call_soon(self.refresh)
        elif self._reads == 2:
            self._cursor.execute("begin")


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
