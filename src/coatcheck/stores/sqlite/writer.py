"""Group commit: one thread, one connection; whatever has been queued meanwhile becomes one transaction."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

from coatcheck.errors import CoatcheckError, StoreUnavailable
from coatcheck.stores.sqlite.file import begin, connect, explain

Keys = tuple[int, ...]
_Result = TypeVar("_Result")
Operation = Callable[[sqlite3.Cursor], tuple[_Result, Keys]]
"""Writes, and returns its result with the keys of what it changed. Raises only if it has written nothing."""

_Job = tuple[Operation[Any], asyncio.Future[Any]]
_CHECKPOINT_AFTER = 4000
_OWN_FAULTS = (CoatcheckError, sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, OverflowError)
"""What one operation can get wrong by itself; everything else undoes the whole batch."""


class Writer:
    def __init__(self, path: Path, *, on_commit: Callable[[Keys], None], on_loop: Callable[[Keys], None]) -> None:
        """`on_commit` is called in the writer's thread once changes are durable, `on_loop` after that on the loop."""
        self._path, self._on_commit, self._on_loop = path, on_commit, on_loop
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        self._tick: list[_Job] = []
        self._db = connect(path)
        self._thread = threading.Thread(target=self._run, name="coatcheck-writer", daemon=True)
        self._thread.start()
        self._is_open = True

    def submit(self, operation: Operation[_Result]) -> asyncio.Future[_Result]:
        """Return a future that is set once the operation's transaction is on disk."""
        if not self._is_open:
            raise StoreUnavailable("The store is closed; open it again.")
        future: asyncio.Future[_Result] = self._loop.create_future()
        if not self._tick:
            # One hand-over per turn of the loop: callers that were woken together are written together.
            self._loop.call_soon(self._hand_over)
        self._tick.append((operation, future))
        return future

    def _hand_over(self) -> None:
        self._queue.put(self._tick)
        self._tick = []

    async def close(self) -> None:
        """Write what is queued, then end the thread."""
        self._is_open = False
        self._hand_over()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._db.close()

    def _run(self) -> None:
        written, is_last = 0, False
        while not is_last:
            batch, is_last = self._take()
            if batch:
                self._settle(*self._commit(batch))
                written += len(batch)
            if written > _CHECKPOINT_AFTER:
                written = 0
                self._checkpoint()

    def _take(self) -> tuple[list[_Job], bool]:
        """Wait for work, and return all there is; and whether it is the last."""
        batch = self._queue.get()
        with suppress(queue.Empty):
            while batch is not None:
                more = self._queue.get_nowait()
                if more is None:
                    return batch, True
                batch = batch + more
        return batch or [], batch is None

    def _commit(self, batch: Sequence[_Job]) -> tuple[list[tuple[asyncio.Future[Any], Any]], Keys]:
        outcomes: list[tuple[asyncio.Future[Any], Any]] = []
        changed: set[int] = set()
        try:
            begin(self._db)
            cursor = self._db.cursor()
            for operation, future in batch:
                try:
                    result, keys = operation(cursor)
                except _OWN_FAULTS as fault:
                    outcomes.append((future, self._explained(fault)))
                else:
                    outcomes.append((future, result))
                    changed.update(keys)
            self._db.execute("commit")
        except Exception as error:
            with suppress(sqlite3.Error):
                self._db.execute("rollback")
            return [(future, self._explained(error)) for _, future in batch], ()
        return outcomes, tuple(changed)

    def _settle(self, outcomes: list[tuple[asyncio.Future[Any], Any]], changed: Keys) -> None:
        with suppress(RuntimeError):  # the loop was closed without closing the store
            self._loop.call_soon_threadsafe(self._resolve, outcomes, changed)
        if changed:
            self._on_commit(changed)

    def _resolve(self, outcomes: list[tuple[asyncio.Future[Any], Any]], changed: Keys) -> None:
        self._on_loop(changed)
        for future, outcome in outcomes:
            if future.done():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    def _checkpoint(self) -> None:
        """Move the log into the file. Under the write lock, so that nobody can restart the log meanwhile."""
        with suppress(sqlite3.Error), closing(connect(self._path)) as other:
            begin(self._db)
            try:
                other.execute("pragma wal_checkpoint(passive)").fetchone()
            finally:
                self._db.execute("rollback")

    def _explained(self, error: Exception) -> Exception:
        return explain(error, self._path) if isinstance(error, sqlite3.Error) else error
