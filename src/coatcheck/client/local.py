"""A call that is no task, as a handle has it: it runs as long as its connection, and nobody else knows of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from msgspec import structs

from coatcheck.client.generations import Started
from coatcheck.client.remote import RemoteTask, Source, Told
from coatcheck.client.wire import Json
from coatcheck.dialects.seen import Question, Snapshot
from coatcheck.errors import InvalidArgument, TaskCancelled
from coatcheck.task import Progress, Status


class LocalCall:
    def __init__(self, name: str, calling: Awaitable[Started], become: Callable[[Snapshot], RemoteTask]) -> None:
        """`become`: what to do with a task, if that is the answer after all."""
        self.snapshot = Snapshot(id=name, status=Status.WORKING)
        self.unanswerable: Mapping[str, Question] = {}
        self._calling = asyncio.ensure_future(calling)
        self._calling.add_done_callback(_note)
        self._become = become
        self._remote: Source | None = None
        self._told: Told | None = None

    @classmethod
    def ended(cls, name: str, result: Json) -> LocalCall:
        """Return a call that was answered at once."""
        answered: asyncio.Future[Started] = asyncio.get_running_loop().create_future()
        answered.set_result(result)
        call = cls(name, answered, _never)
        call.snapshot = structs.replace(call.snapshot, status=_status(result))
        return call

    @property
    def is_task(self) -> bool:
        return self._remote is not None

    async def look(self) -> Snapshot:
        if self._remote:
            self.snapshot = await self._remote.look()
        return self.snapshot

    async def follow(self, told: Told) -> None:
        self._told = told
        try:
            await asyncio.wait((self._calling,))
        finally:
            self._told = None
        if self._calling.cancelled():
            self._see(Status.CANCELLED)
        elif self._calling.exception():
            self._see(Status.FAILED, str(self._calling.exception()))
        elif isinstance(answer := self._calling.result(), Snapshot):
            self._remote = self._remote or self._become(answer)
            await self._remote.follow(told)
            self.snapshot = self._remote.snapshot
            return
        else:
            self._see(_status(answer))
        told(self.snapshot)

    async def collect(self) -> Json:
        if self._remote:
            return await self._remote.collect()
        if self._calling.cancelled():
            raise TaskCancelled(self.snapshot.id)
        answer = self._calling.result()
        assert not isinstance(answer, Snapshot)
        return answer

    async def answer(self, responses: Mapping[str, Json]) -> None:
        raise InvalidArgument("This call is no task; what it asks goes to the client's callbacks.")

    async def cancel(self) -> None:
        if self._remote:
            await self._remote.cancel()
        elif self._calling.cancel():
            await asyncio.wait((self._calling,))
            self._see(Status.CANCELLED)

    async def close(self) -> None:
        if self._remote:
            await self._remote.close()
        self._calling.cancel()
        await asyncio.gather(self._calling, return_exceptions=True)

    def progressed(self, progress: Progress, message: str | None) -> None:
        self.snapshot = structs.replace(self.snapshot, progress=progress, message=message)
        if self._told:
            self._told(self.snapshot)

    def _see(self, status: Status, message: str | None = None) -> None:
        self.snapshot = structs.replace(self.snapshot, status=status, message=message or self.snapshot.message)


def _note(calling: asyncio.Future[Started]) -> None:
    """Take note of an error, in case nobody asks for the result."""
    if not calling.cancelled():
        calling.exception()


def _never(task: Snapshot) -> RemoteTask:
    raise AssertionError(task)


def _status(result: Json) -> Status:
    return Status.FAILED if result.get("isError") is True else Status.COMPLETED
