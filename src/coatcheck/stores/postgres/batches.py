"""Coalescing: what is asked in one turn of the loop, or while others are on their way, goes in one statement."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, Generic, Protocol, TypeVar

from coatcheck.errors import CoatcheckError, StoreUnavailable
from coatcheck.stores.postgres.connections import Connections
from coatcheck.stores.postgres.driver import PATIENCE, Backoff, explain, is_passing

_MOST_ROWS = 256
_MOST_AT_ONCE = 2
_MOST_BYTES = 1 << 20
_RETRY_SECONDS = 0.002


class Operation:
    """One of many in a statement."""

    __slots__ = ("deadline", "future", "is_again", "names", "size")

    def __init__(self, names: Collection[object] = (), size: int = 0) -> None:
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = loop.create_future()
        self.deadline = loop.time() + PATIENCE
        self.names, self.size = names, size
        """No two operations of a statement share a name."""
        self.is_again = False
        """It may have been carried out already: the connection broke before there was an answer."""

    def settle(self, result: object) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


_Kind = TypeVar("_Kind", bound=Operation)


class Statement(Protocol[_Kind]):
    """One kind of operation, many at a time. To be repeatable as it is."""

    sql: str

    def values(self, batch: Sequence[_Kind]) -> Sequence[object]: ...

    def settle(self, batch: Sequence[_Kind], rows: Sequence[Any]) -> list[_Kind]:
        """Give every operation its result; return those that could not be carried out just now."""
        ...


class Batches(Generic[_Kind]):
    def __init__(self, connections: Connections, statement: Statement[_Kind], *, few: int) -> None:
        """`few` are not worth a second statement."""
        self._connections, self._statement, self._few = connections, statement, few
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Kind] = deque()
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_due = False
        self._is_open = True

    def submit(self, operation: _Kind) -> asyncio.Future[Any]:
        if not self._is_open:
            raise StoreUnavailable("The store is closed; open it again.")
        self._queue.append(operation)
        self._send_soon()
        return operation.future

    async def close(self) -> None:
        """Carry out what is queued."""
        self._is_open = False
        while self._queue or self._under_way:
            self._send()
            await asyncio.wait(self._under_way)

    def _send_soon(self) -> None:
        # At the end of this turn: callers that were woken together are served together.
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._is_due = False
        while self._queue and (room := _MOST_AT_ONCE - len(self._under_way)):
            # Many are shared out, so that the server deals with some while we deal with its answers to others.
            share = max(self._few, -(-len(self._queue) // room))
            task = self._loop.create_task(self._carry_out(self._pick(min(share, _MOST_ROWS))))
            self._under_way.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if self._queue:
            self._send_soon()

    def _pick(self, most: int) -> list[_Kind]:
        """Take from the queue what fits into one statement; what shares a name with another waits for the next."""
        batch, left, size = list[_Kind](), list[_Kind](), 0
        names = set[object]()
        while self._queue and len(batch) < most and (not batch or size + self._queue[0].size <= _MOST_BYTES):
            operation = self._queue.popleft()
            if operation.names:
                if not names.isdisjoint(operation.names):
                    left.append(operation)
                    continue
                names.update(operation.names)
            batch.append(operation)
            size += operation.size
        self._queue.extendleft(reversed(left))
        return batch

    async def _carry_out(self, batch: list[_Kind]) -> None:
        backoff = Backoff()
        while batch:
            try:
                rows = await self._connections.fetch(self._statement.sql, *self._statement.values(batch))
                left = self._statement.settle(batch, rows)
            except Exception as error:
                self._connections.note(error)
                if is_passing(error):
                    batch = self._give_up_late(batch, error)
                    if batch:
                        await backoff.pause()
                elif len(batch) == 1:
                    batch[0].fail(explain(error, self._connections.target))
                    return
                else:  # the fault of one is no reason to refuse the others
                    for operation in batch:
                        await self._carry_out([operation])
                    return
            else:
                if left:
                    await self._put_back(left)
                return

    def _give_up_late(self, batch: list[_Kind], error: Exception) -> list[_Kind]:
        """Tell those that have waited for too long; return the others."""
        now, kept = self._loop.time(), list[_Kind]()
        for operation in batch:
            operation.is_again = True
            if operation.deadline <= now:
                operation.fail(self._unavailable(error))
            else:
                kept.append(operation)
        while self._queue and self._queue[0].deadline <= now:
            self._queue.popleft().fail(self._unavailable(error))
        return kept

    async def _put_back(self, left: list[_Kind]) -> None:
        """Somebody else holds these rows for a moment."""
        await asyncio.sleep(_RETRY_SECONDS)
        now = self._loop.time()
        for operation in reversed(left):
            if operation.deadline <= now:
                operation.fail(
                    StoreUnavailable(
                        f"{self._connections.target.name} kept a row locked for {PATIENCE:.0f} s; "
                        "end the transaction that holds it."
                    )
                )
            else:
                self._queue.appendleft(operation)

    def _unavailable(self, error: Exception) -> CoatcheckError:
        return explain(error, self._connections.target)
