"""A ticket: what is held of a call while its task goes on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

from coatcheck.client.keeping import Keeping
from coatcheck.client.remote import Source
from coatcheck.client.wire import Json
from coatcheck.dialects.seen import Snapshot
from coatcheck.errors import CannotConnect, CoatcheckError, InputRequired, TaskCancelled, TaskLost, ToolFailed
from coatcheck.task import Status

T = TypeVar("T")


Read = Callable[[Json], Awaitable[T]]
"""Makes of a tool's result what its caller wants."""


class TaskHandle(Generic[T]):
    """One task. It is followed, and its questions are answered, while anyone here waits for it."""

    def __init__(self, tool: str | None, source: Source, keeping: Keeping, read: Read[T]) -> None:
        self.tool = tool
        self.on_change: Callable[[Snapshot], object] | None = None
        """Told of every change that is seen."""
        self._source, self._keeping, self._read = source, keeping, read
        self._following: asyncio.Task[None] | None = None
        self._watches: set[_Watch] = set()

    @property
    def id(self) -> str:
        return self._source.snapshot.id

    @property
    def is_task(self) -> bool:
        """Whether the server keeps it. A plain call ends with its connection."""
        return self._source.is_task

    @property
    def snapshot(self) -> Snapshot:
        """The task as it was last seen."""
        return self._source.snapshot

    async def status(self) -> Snapshot:
        """Return the task as it is now.

        Raises:
            TaskLost: The server does not have it any more.
        """
        try:
            snapshot = await self._source.look()
        except TaskLost:
            self._keeping.delivered()
            raise
        self._keeping.saw(snapshot)
        return snapshot

    async def wait(self, timeout: float | None = None) -> Snapshot:
        """Return the task once it has ended, or as it is after `timeout` seconds. Nothing is cancelled."""
        try:
            async with asyncio.timeout(timeout):
                async for _ in self.events():
                    pass
        except TimeoutError:
            pass
        return self.snapshot

    async def events(self) -> AsyncIterator[Snapshot]:
        """Give the task as it is, and then every change that is seen; the last one is its end."""
        async with self._watched() as watch:
            snapshot = self.snapshot
            yield snapshot
            while not snapshot.is_terminal:
                snapshot = await watch.next()
                yield snapshot

    async def result(self, timeout: float | None = None) -> T:
        """Return what the call would have returned.

        Raises:
            TimeoutError: It has not come within `timeout` seconds. The task goes on.
            InputRequired: The task asks something, and the client has no callback for it.
            ToolFailed, TaskCancelled, TaskLost: There is no result, and there will be none.
        """
        async with asyncio.timeout(timeout):
            try:
                await self._ended()
                result = await self._read(await self._source.collect())
            except CoatcheckError as error:
                if isinstance(error, ToolFailed | TaskCancelled | TaskLost) or not self.is_task:
                    self._keeping.delivered()  # that is all there will ever be
                raise
        self._keeping.delivered()
        return result

    def __await__(self) -> Generator[Any, None, T]:
        return self.result().__await__()

    async def answer(self, responses: Mapping[str, Mapping[str, Any]]) -> None:
        """Answer questions by their keys, in the protocol's words: `{key: {"action": "accept", "content": {…}}}`.

        Raises:
            InvalidArgument: The server does not take the answer; the question is still open.
        """
        await self._source.answer({key: dict(answer) for key, answer in responses.items()})

    async def cancel(self) -> Snapshot:
        """Ask the server to give up the task, and return the task as it is then."""
        await self._source.cancel()
        snapshot = await self.status()
        if snapshot.status is Status.CANCELLED:
            self._keeping.delivered()
        return snapshot

    async def detach(self) -> None:
        """Leave the task to whoever resumes it, if there is a ledger."""
        self._keeping.released()

    async def close(self) -> None:
        """Stop following. The task goes on."""
        await self._stop_following()
        await self._source.close()

    async def _ended(self) -> None:
        async with self._watched() as watch:
            while not self.snapshot.is_terminal:
                if unanswerable := self._source.unanswerable:
                    raise InputRequired(self.id, unanswerable)
                await watch.next()

    @asynccontextmanager
    async def _watched(self) -> AsyncGenerator[_Watch]:
        """Follow the task as long as anyone wants to know."""
        if not self.snapshot.is_terminal and (self._following is None or self._following.done()):
            self._following = asyncio.create_task(self._source.follow(self._tell))
            self._following.add_done_callback(self._followed)
        watch = _Watch()
        self._watches.add(watch)
        try:
            yield watch
        finally:
            self._watches.discard(watch)
            if not self._watches:
                await self._stop_following()

    async def _stop_following(self) -> None:
        following, self._following = self._following, None
        if following:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    def _followed(self, following: asyncio.Task[None]) -> None:
        error = None if following.cancelled() else following.exception()
        if isinstance(error, TaskLost):
            self._keeping.delivered()  # there is nothing to come back for
        if error is None and not self.snapshot.is_terminal:
            error = CannotConnect(f"The client was closed while {self.tool or 'a task'} was waited for")
        for watch in self._watches:
            watch.end(error, self.snapshot)

    def _tell(self, snapshot: Snapshot) -> None:
        self._keeping.saw(snapshot)
        for watch in self._watches:
            watch.tell(snapshot)
        if self.on_change:
            self.on_change(snapshot)


class _Watch:
    """What one who watches has yet to see."""

    __slots__ = ("_end", "_unseen", "_waker")

    def __init__(self) -> None:
        self._unseen: deque[Snapshot] | None = None
        self._end: BaseException | Snapshot | None = None
        self._waker: asyncio.Future[None] | None = None

    def tell(self, snapshot: Snapshot) -> None:
        self._unseen = self._unseen or deque()
        self._unseen.append(snapshot)
        self._wake()

    def end(self, error: BaseException | None, snapshot: Snapshot) -> None:
        """Note that there will be no more, and why."""
        self._end = error or snapshot
        self._wake()

    async def next(self) -> Snapshot:
        """Return the next change; or raise what went wrong with following it."""
        while not self._unseen:
            if isinstance(self._end, Snapshot):
                return self._end
            if self._end:
                raise self._end
            self._waker = asyncio.get_running_loop().create_future()
            await self._waker
        return self._unseen.popleft()

    def _wake(self) -> None:
        if self._waker and not self._waker.done():
            self._waker.set_result(None)
