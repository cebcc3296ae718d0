"""The ledger: what was handed in and not yet collected, in a file, so that a program that crashed can come back for it.

A row is written before a call is sent, and removed once its result has been delivered.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import msgspec

from coatcheck.errors import InvalidArgument, StoreUnavailable, StoreUnusable
from coatcheck.liveness import is_dead

STATE_VARIABLE = "COATCHECK_STATE"
_SCHEMA = 1
_TABLES = """
    create table call (
        key text primary key, target text not null, tool text not null, arguments text not null,
        started_at text not null, holder text, task_id text, protocol text, status text, ttl real
    ) without rowid;
    create index call_task on call (task_id);
    create table answer (
        key text not null, question text not null, answer text not null, primary key (key, question)
    ) without rowid;
"""
_COLUMNS = "key, target, tool, arguments, started_at, holder, task_id, protocol, status, ttl"
_LONGEST_WAIT = 10.0
_WRITES_PER_CHECKPOINT = 1000

_encode = msgspec.json.Encoder(order="deterministic").encode


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One call that has not been collected."""

    key: str
    target: Mapping[str, Any]
    tool: str
    arguments: Mapping[str, Any]
    started_at: datetime
    holder: str | None = None
    """Which process waits for it; None: nobody."""
    task_id: str | None = None
    """None: it was about to be handed in, and nobody knows whether it was."""
    protocol: str | None = None
    status: str | None = None
    ttl: float | None = None

    @property
    def holder_alive(self) -> bool:
        return self.holder is not None and not is_dead(self.holder)


def default_path() -> Path:
    """Return the file that is used if nobody says: in the user's state folder."""
    home = os.environ.get(STATE_VARIABLE)
    folder = Path(home) if home else Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state") / "coatcheck"
    return folder.expanduser() / "calls.ledger"


class Ledger:
    """Shared by all programs of a user: each write is a transaction, and is there when the call returns."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """Open the ledger, or begin one.

        Raises:
            StoreUnavailable: It cannot be opened or written.
            StoreUnusable: The file is something else, or of a later version.
        """
        self.path = Path(path) if path is not None else default_path()
        self._writes = 0
        with self._explained():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            self._db = self._connect()
            self._prepare()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    # What a client writes

    def begin(self, entry: Entry) -> None:
        """Write down a call that is about to be sent."""
        values = (entry.key, _text(entry.target), entry.tool, _text(entry.arguments), entry.started_at.isoformat())
        rest = (entry.holder, entry.task_id, entry.protocol, entry.status, entry.ttl)
        self._write(f"insert or replace into call ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *values, *rest)

    def became(self, key: str, task_id: str, protocol: str) -> None:
        """Write down which task a call has become."""
        self._write("update call set task_id = ?, protocol = ? where key = ?", task_id, protocol, key)

    def saw(self, key: str, status: str) -> None:
        self._write("update call set status = ? where key = ?", status, key)

    def answered(self, key: str, question: str, answer: Mapping[str, Any]) -> None:
        """Write down an answer, before it is sent: nobody is to be asked twice."""
        self._write("insert or replace into answer values (?, ?, ?)", key, question, _text(answer))

    def arrived(self, key: str, question: str) -> None:
        """Forget an answer that has arrived, as the same question may be asked again."""
        self._write("delete from answer where key = ? and question = ?", key, question)

    def release(self, key: str) -> None:
        """Leave a call to whoever asks for it."""
        self._write("update call set holder = null where key = ?", key)

    def release_all(self, holder: str) -> None:
        self._write("update call set holder = null where holder = ?", holder)

    def forget(self, key: str) -> None:
        """Remove a call that has been collected."""
        self._write("delete from answer where key = ?", key)
        self._write("delete from call where key = ?", key)

    def take(self, holder: str, target: Mapping[str, Any] | None = None) -> Sequence[Entry]:
        """Make all calls one's own that nobody living holds; of one target, or of all."""
        with self._explained():
            self._db.execute("begin immediate")
            try:
                free = [entry for entry in self.entries(target) if not entry.holder_alive]
                self._db.executemany("update call set holder = ? where key = ?", [(holder, e.key) for e in free])
                self._db.execute("commit")
            except BaseException:
                self._db.execute("rollback")
                raise
        return [msgspec.structs.replace(entry, holder=holder) for entry in free]

    # What can be read

    def entries(self, target: Mapping[str, Any] | None = None) -> Sequence[Entry]:
        """Return all calls, oldest first."""
        where, values = ("", ()) if target is None else ("where target = ?", (_text(target),))
        with self._explained():
            rows = self._db.execute(f"select {_COLUMNS} from call {where} order by started_at, key", values)
            return [_entry(row) for row in rows]

    def find(self, name: str) -> Entry:
        """Return the call with this task id, or with the only one that begins so.

        Raises:
            InvalidArgument: There is none, or more than one.
        """
        found = [entry for entry in self.entries() if (entry.task_id or entry.key).startswith(name)]
        exact = [entry for entry in found if name in (entry.task_id, entry.key)]
        match exact or found:
            case [entry]:
                return entry
            case []:
                raise InvalidArgument(f"The ledger has no task {name!r}; `coatcheck tasks` lists what it has.")
            case several:
                raise InvalidArgument(f"{len(several)} tasks begin with {name!r}; write more of the id.")

    def by_task(self, task_id: str) -> Entry | None:
        with self._explained():
            row = self._db.execute(f"select {_COLUMNS} from call where task_id = ?", (task_id,)).fetchone()
        return _entry(row) if row else None

    def answer(self, key: str, question: str) -> dict[str, Any] | None:
        with self._explained():
            row = self._db.execute("select answer from answer where key = ? and question = ?", (key, question))
            found = row.fetchone()
        return msgspec.json.decode(found[0]) if found else None

    def _write(self, statement: str, *values: object) -> None:
        with self._explained():
            self._db.execute(statement, values)
            self._writes += 1
            if self._writes % _WRITES_PER_CHECKPOINT == 0:
                self._checkpoint()

    def _checkpoint(self) -> None:
        """As in the SQLite store: with the write lock, so that nobody restarts the log meanwhile."""
        with closing(self._connect()) as other:
            other.execute("begin immediate")
            self._db.execute("pragma wal_checkpoint(passive)")
            other.execute("rollback")

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=_LONGEST_WAIT, isolation_level=None)
        db.execute("pragma wal_autocheckpoint = 0")
        db.execute("pragma synchronous = normal")
        return db

    def _prepare(self) -> None:
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("begin immediate")
        (version,) = self._db.execute("pragma user_version").fetchone()
        (tables,) = self._db.execute("select count(*) from sqlite_schema").fetchone()
        if version == 0 and tables == 0:
            for statement in _TABLES.split(";"):
                self._db.execute(statement)
            self._db.execute(f"pragma user_version = {_SCHEMA}")
        elif version != _SCHEMA:
            self._db.execute("rollback")
            raise StoreUnusable(f"{self.path} is no ledger of this version; choose another path for the ledger.")
        self._db.execute("commit")

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except (OSError, sqlite3.OperationalError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise StoreUnavailable(
                f"Cannot use the ledger {self.path}: {reason}; choose another path, or do without (ledger=False)."
            ) from error
        except sqlite3.DatabaseError as error:
            raise StoreUnusable(f"{self.path} is no ledger: {error}; choose another path for the ledger.") from error


def now() -> datetime:
    return datetime.now(UTC)


def _text(value: Mapping[str, Any]) -> str:
    return _encode(value).decode()


def _entry(row: tuple[Any, ...]) -> Entry:
    key, target, tool, arguments, started_at, holder, task_id, protocol, status, ttl = row
    return Entry(
        key=key,
        target=msgspec.json.decode(target),
        tool=tool,
        arguments=msgspec.json.decode(arguments),
        started_at=datetime.fromisoformat(started_at),
        holder=holder,
        task_id=task_id,
        protocol=protocol,
        status=status,
        ttl=ttl,
    )
