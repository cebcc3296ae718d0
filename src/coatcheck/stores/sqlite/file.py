"""The SQLite file: opening it, making sure it is ours and sound, bringing its schema up to date."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

from coatcheck.errors import StoreError, StoreUnavailable, StoreUnusable

logger = logging.getLogger("coatcheck")

_APPLICATION_ID = 0x436F6174  # "Coat"
_WAL_RESET_FIXED = (3, 51, 3)
_LONGEST_WAIT = 10.0
_DAMAGED = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT})

MIGRATIONS = (
    """
    create table task (
        number integer primary key, id text not null, version integer not null, owner text, tool text not null,
        idempotency_key text, state integer not null, created_at integer not null, lease_until integer,
        expires_at integer, sealed_by text, body blob not null
    );
    create index task_owner on task (owner, (state < 3), created_at);
    create index task_waiting on task (tool, created_at) where state = 0;
    create index task_lease on task (lease_until) where lease_until is not null;
    create index task_expiry on task (expires_at) where expires_at is not null;
    create index task_sealed on task (sealed_by) where sealed_by is not null;
    create unique index task_key on task (coalesce('+' || owner, '-'), idempotency_key)
        where idempotency_key is not null;
    create table entry (
        task_id text not null, number integer not null, sealed_by text, body blob not null,
        primary key (task_id, number)
    ) without rowid;
    create index entry_sealed on entry (sealed_by) where sealed_by is not null;
    """,
)
"""Step n takes a file from schema n to n + 1. Never edited once released."""


def prepare(path: Path) -> None:
    """Make the file, or check that it is one of ours and bring it up to date.

    Raises:
        StoreUnavailable: It cannot be opened or written.
        StoreUnusable: It is not ours, damaged, or newer than this library. It was not touched.
    """
    _note_wal_reset()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not _open_here[_identity(path)]:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            _check_head(path)
    except OSError as error:
        raise StoreUnavailable(
            f"Cannot write {path}: {error.strerror}; choose another path, or make its folder writable."
        ) from error
    with explained(path), closing(connect(path)) as db:
        if _schema_of(db, path) < len(MIGRATIONS):
            _migrate(db, path)
        _use_wal(db, path)


@contextmanager
def opened(path: Path) -> Generator[None]:
    """Prepare the file; and know, for as long as this lasts, that this process has it open."""
    with _opening:
        prepare(path)
        identity = _identity(path)
        _open_here[identity] += 1
    try:
        yield
    finally:
        with _opening:
            _open_here[identity] -= 1


# Closing any descriptor of a file drops all locks its process has on it, SQLite's own among them. So what is open
# here may only be touched through SQLite, and it must be known.
_opening = threading.Lock()
_open_here: Counter[tuple[int, int] | None] = Counter()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection that commits to disk and leaves checkpoints to the writer."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_LONGEST_WAIT)
    try:
        db.execute("pragma synchronous = full")
        db.execute("pragma wal_autocheckpoint = 0")
        db.execute("pragma cache_size = -16384")
    except sqlite3.Error:
        db.close()
        raise
    return db


def begin(db: sqlite3.Connection) -> None:
    """Take the write lock. SQLite's own waiting backs off up to 100 ms, far longer than our transactions take."""
    deadline, pause = time.monotonic() + _LONGEST_WAIT, 0.0002
    while True:
        try:
            db.execute("begin immediate")
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(pause * 1.5, 0.003)


@contextmanager
def explained(path: Path) -> Generator[None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise explain(error, path) from error


def explain(error: sqlite3.Error, path: Path) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _DAMAGED:
        return StoreUnusable(
            f"{path} is damaged or no SQLite file ({error}); restore a backup, or choose another path."
        )
    if code == sqlite3.SQLITE_BUSY:
        return StoreUnavailable(f"{path} was locked by another program for {_LONGEST_WAIT:.0f} s; stop that program.")
    return StoreUnavailable(f"{path} cannot be used just now: {error}; check the disk and the file's permissions.")


def _check_head(path: Path) -> None:
    """Look before SQLite does: merely opening and closing another program's file may change it."""
    with path.open("rb") as file:
        head = file.read(100)
    if head and not head.startswith(b"SQLite format 3\0"):
        raise StoreUnusable(f"{path} is damaged or no SQLite file; restore a backup, or choose another path.")
    if head and int.from_bytes(head[68:72], "big") != _APPLICATION_ID:
        raise StoreUnusable(f"{path} belongs to another program and was left alone; choose another path.")
    _check_schema(int.from_bytes(head[60:64], "big"), path)


def _schema_of(db: sqlite3.Connection, path: Path) -> int:
    (schema,) = db.execute("pragma user_version").fetchone()
    _check_schema(schema, path)
    return schema


def _check_schema(schema: int, path: Path) -> None:
    if schema > len(MIGRATIONS):
        raise StoreUnusable(
            f"{path} was written by a newer coatcheck (schema {schema}, this one knows {len(MIGRATIONS)}); "
            "upgrade coatcheck, or choose another path."
        )


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    begin(db)
    # Another process may have migrated while this one waited for the lock.
    for number, script in enumerate(MIGRATIONS[(schema := _schema_of(db, path)) :], start=schema + 1):
        for statement in script.split(";"):
            db.execute(statement)
        db.execute(f"pragma user_version = {number}")
    db.execute(f"pragma application_id = {_APPLICATION_ID}")
    db.execute("commit")


def _use_wal(db: sqlite3.Connection, path: Path) -> None:
    deadline = time.monotonic() + _LONGEST_WAIT
    while True:
        try:
            (mode,) = db.execute("pragma journal_mode = wal").fetchone()
        except sqlite3.OperationalError as error:  # this pragma does not wait for locks
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise StoreUnavailable(f"{path} lies where SQLite cannot share it ({mode}); choose a local disk.")
        return


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


@cache
def _note_wal_reset() -> None:
    """Once, and in a low voice: there is nothing to be done about it, and nearly every Python of today has it."""
    if sqlite3.sqlite_version_info < _WAL_RESET_FIXED:
        logger.debug(
            "SQLite %s has the WAL-reset bug (fixed in 3.51.3), which can damage a file that several programs write. "
            "coatcheck checkpoints under the write lock, which avoids it; let no other program write its files.",
            sqlite3.sqlite_version,
        )
