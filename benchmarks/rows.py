"""Tasks like those of a busy server, and files full of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from coatcheck.engine import Engine
from coatcheck.ids import Ids
from coatcheck.lifecycle import Claimed, Completed, advance
from coatcheck.payload import encode
from coatcheck.stores.codec import Codec
from coatcheck.stores.columns import microseconds, state_of
from coatcheck.stores.sqlite.file import connect, prepare
from coatcheck.stores.sqlite.operations import number_of
from coatcheck.stores.sqlite.store import SQLiteStore
from coatcheck.task import Task, ToolCall

INSERT = (
    "insert into task (number, id, owner, tool, idempotency_key, created_at, version, state, lease_until, expires_at,"
    " sealed_by, body) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
COLUMNS = (
    "number, id, owner, tool, idempotency_key, created_at, version, state, lease_until, expires_at, sealed_by, body"
)
TOOL = "search"
ARGUMENTS = {"query": "the quick brown fox jumps over the lazy dog", "limit": 50, "filters": ["a", "b"]}
META = {"progressToken": 17, "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
_RESULT = encode({"content": [{"type": "text", "text": "Lorem ipsum dolor sit amet. " * 6}], "isError": False})
_TASKS_OF_AN_OWNER = 20


async def submit(engine: Engine, owner: str | None = None, claimed_by: str | None = None) -> Task:
    return await engine.submit(TOOL, ARGUMENTS, owner=owner, meta=META, claimed_by=claimed_by)


def waiting_tasks(count: int) -> Iterator[Task]:
    return _tasks(count, _template())


def finished_tasks(count: int) -> Iterator[Task]:
    task = _template()
    claimed = advance(task, Claimed("bench", task.created_at + timedelta(seconds=20)), task.created_at)
    return _tasks(count, advance(claimed, Completed(1, _RESULT), task.created_at + timedelta(seconds=5)))


def row(task: Task, codec: Codec) -> tuple[object, ...]:
    """Return what the SQLite store writes for a task that nobody holds, in the order of COLUMNS."""
    return (
        number_of(task.id),
        task.id,
        task.owner,
        task.call.tool,
        task.idempotency_key,
        microseconds(task.created_at),
        task.version,
        state_of(task),
        None,
        microseconds(task.expires_at) if task.expires_at else None,
        codec.key_id,
        codec.dump(task),
    )


def fill(path: Path, tasks: Iterable[Task]) -> None:
    """Make a store's file that holds `tasks`, in one transaction and without waiting for the disk."""
    prepare(path)
    codec = Codec()
    with closing(connect(path)) as db:
        # One huge transaction would first fill a log of the file's own size.
        for pragma in ("journal_mode = off", "synchronous = off", "cache_size = -524288"):
            db.execute(f"pragma {pragma}")
        db.execute("begin immediate")
        db.executemany(INSERT, (row(task, codec) for task in tasks))
        db.execute("commit")
        db.execute("pragma journal_mode = wal")


def some_ids(path: Path, count: int) -> list[str]:
    """Return the ids of `count` rows picked at random; a row may come up again."""
    pick = "select id from task where number >= abs(random()) % (select max(number) from task) order by number limit 1"
    with closing(sqlite3.connect(path)) as db:
        return [db.execute(pick).fetchone()[0] for _ in range(count)]


def all_ids(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [task_id for (task_id,) in db.execute("select id from task order by number")]


async def check_row(folder: Path) -> None:
    """Make sure that the rows written here are the store's own, so that nobody is spared work."""
    codec = Codec()
    for number, task in enumerate((*waiting_tasks(1), *finished_tasks(1))):
        path = folder / f"row{number}.db"
        async with SQLiteStore(path) as store:
            await store.insert(task)
        with closing(sqlite3.connect(path)) as db:
            kept = db.execute(f"select {COLUMNS} from task").fetchone()
        if kept != row(task, codec):
            raise RuntimeError(
                f"The store writes {kept}, the benchmarks write {row(task, codec)}; mend benchmarks.rows"
            )


def _template() -> Task:
    now = datetime.now(UTC)
    return Task(
        id="",
        owner=None,
        call=ToolCall(tool=TOOL, arguments=encode(ARGUMENTS), meta=encode(META)),
        created_at=now,
        updated_at=now,
        expires_at=now + timedelta(days=1),
        poll_interval=timedelta(seconds=2),
    )


def _tasks(count: int, template: Task) -> Iterator[Task]:
    ids, born, replace = Ids(), template.created_at, msgspec.structs.replace
    for number in range(count):
        created_at = born - timedelta(milliseconds=count - number)
        yield replace(template, id=ids.new(), owner=f"owner-{number // _TASKS_OF_AN_OWNER}", created_at=created_at)
