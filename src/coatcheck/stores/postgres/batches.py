"""Coalescing: what is asked in one turn of the loop, or while others are on their way, goes in one statement."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from coatcheck.errors import CoatcheckError, StoreUnavailable
from coatcheck.stores.postgres.connections import Connections
from coatcheck.stores.postgres.driver import PATIENCE, Backoff, explain, is_passing, is_undone

_MOST_ROWS = 256
_MOST_AT_ONCE = 2
_FEW_ROWS = 16
"""Not worth a second statement. With more, the server deals with some while we deal with its answers to others."""
_MOST_BYTES = 1 << 20
_RETRY_SECONDS = 0.002
_TURNS = 3
"""Of the loop: in the first, callers hear of their results and ask for more, which is picked, and then sent."""


class Operation(msgspec.Struct, kw_only=True, eq=False):
    """One of many in a statement."""

    size: int = 0
    is_plain: bool = False
    """If all goes well, it needs no answer of its own."""
    is_again: bool = False
    """It may have been carried out already: the connection broke before there was an answer."""
    future: asyncio.Future[Any] | None = None
    deadline: float = 0.0

    @property
    def names(self) -> Collection[object]:
        """No two operations of a statement that answers each of them share a name."""
        return ()

    def settle(self, result: object) -> None:
        if self.future and not self.future.done():
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        if self.future and not self.future.done():
            self.future.set_exception(error)


_Kind = TypeVar("_Kind", bound=Operation)
_Told = TypeVar("_Told")
_KindIn = TypeVar("_KindIn", bound=Operation, contravariant=True)


class ForEach(Protocol[_Kind]):
    """One kind of operation, many at a time, with an answer for each. Repeatable as it is."""

    sql: str

    def values(self, batch: Sequence[_Kind]) -> Sequence[object]: ...

    def settle(self, batch: Sequence[_Kind], rows: Sequence[Any]) -> list[_Kind]:
        """Give every operation its result; return those that could not be carried out just now."""
        ...


class ForAll(Protocol[_KindIn]):
    """The same with one answer for all, in two thirds of the time. Takes plain ones only, and is not repeated."""

    sql: str

    def values(self, batch: Sequence[_KindIn]) -> Sequence[object]: ...

    def settle(self, batch: Sequence[_KindIn], rows: Sequence[Any]) -> bool:
        """Give every operation its result; or say that not all of them have been carried out."""
        ...


class _Queue(ABC, Generic[_Kind]):
    """What is to be sent, and what is under way."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Kind] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: set[asyncio.Task[None]] = set()
        """Those of them that wait for an answer of the server."""
        self._floor = asyncio.Lock()
        self._is_due = False
        self._is_open = True

    def submit(self, operation: _Kind) -> asyncio.Future[Any]:
        if not self._is_open:
            raise StoreUnavailable("The store is closed; open it again.")
        operation.future = future = self._loop.create_future()
        operation.deadline = self._loop.time() + PATIENCE
        self._queue.append(operation)
        if not self._is_due:
            self._send_soon()
        return future

    async def close(self) -> None:
        """Carry out what is queued."""
        self._is_open = False
        while self._queue or self._tasks:
            self._send()
            await asyncio.wait(self._tasks)

    @abstractmethod
    def _pick(self, most: int) -> list[_Kind]:
        """Take from the queue what goes into one statement."""

    @abstractmethod
    async def _carry_out(self, batch: list[_Kind]) -> None: ...

    def _send_soon(self) -> None:
        """Send at the end of this turn: callers that were woken together are served together."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._is_due = False
        while self._queue and (room := _MOST_AT_ONCE - len(self._under_way)):
            share = max(_FEW_ROWS, -(-len(self._queue) // room))
            task = self._loop.create_task(self._carry_out(self._pick(min(share, _MOST_ROWS))))
            self._tasks.add(task)
            self._under_way.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None] | None) -> None:
        self._tasks.discard(task)
        self._answered(task)

    def _answered(self, task: asyncio.Task[None] | None) -> None:
        self._under_way.discard(task)
        if self._queue:
            self._send_soon()

    async def _tell(self, settle: Callable[[], _Told]) -> _Told:
        """Tell the callers of one batch, and let them have sent what they ask next, before those of another are told.

        So the server is at work again while we are.
        """
        self._answered(asyncio.current_task())
        async with self._floor:
            told = settle()
            if len(self._tasks) > 1:
                for _ in range(_TURNS):
                    await asyncio.sleep(0)
        return told


class Batches(_Queue[_Kind]):
    def __init__(self, connections: Connections, statement: ForEach[_Kind]) -> None:
        super().__init__(connections)
        self._statement = statement

    def take_over(self, batch: Sequence[_Kind]) -> None:
        """Carry these out sooner than what is queued."""
        self._queue.extendleft(reversed(batch))
        self._send_soon()

    def _pick(self, most: int) -> list[_Kind]:
        queue, batch, left = self._queue, list[_Kind](), list[_Kind]()
        names, room = set[object](), _MOST_BYTES
        while queue and len(batch) < most and room > 0:
            operation = queue.popleft()
            if names.isdisjoint(operation.names):
                names.update(operation.names)
                batch.append(operation)
                room -= operation.size
            else:
                left.append(operation)
        queue.extendleft(reversed(left))
        return batch

    async def _carry_out(self, batch: list[_Kind]) -> None:
        backoff = Backoff()
        while batch:
            try:
                rows = await self._connections.fetch(self._statement.sql, *self._statement.values(batch))
                left = await self._tell(partial(self._statement.settle, batch, rows))
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
            operation.is_again = operation.is_again or not is_undone(error)
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


class QuickBatches(_Queue[_Kind]):
    """Goes the short way; what does not come through goes the other."""

    def __init__(self, connections: Connections, statement: ForAll[_Kind], otherwise: Batches[_Kind]) -> None:
        super().__init__(connections)
        self._statement, self._otherwise = statement, otherwise

    def submit(self, operation: _Kind) -> asyncio.Future[Any]:
        return super().submit(operation) if operation.is_plain else self._otherwise.submit(operation)

    async def close(self) -> None:
        await super().close()
        await self._otherwise.close()

    def _pick(self, most: int) -> list[_Kind]:
        queue, batch, room = self._queue, list[_Kind](), _MOST_BYTES
        while queue and len(batch) < most and room > 0:
            batch.append(queue.popleft())
            room -= batch[-1].size
        return batch

    async def _carry_out(self, batch: list[_Kind]) -> None:
        try:
            rows = await self._connections.fetch(self._statement.sql, *self._statement.values(batch))
            if await self._tell(partial(self._statement.settle, batch, rows)):
                return
            is_again = True
        except Exception as error:
            self._connections.note(error)
            is_again = not is_undone(error)
            if is_again:  # what is queued had better go where it can wait for the server
                self._otherwise.take_over(list(self._queue))
                self._queue.clear()
        for operation in batch:
            operation.is_again = is_again
        self._otherwise.take_over(batch)
