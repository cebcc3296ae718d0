"""Many who wait for one task: it is watched once, and they are woken together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from coatcheck.task import Task

Wait = Callable[[Task, float], Awaitable[Task]]
_LONG_POLL_SECONDS = 3600.0
_ASKING_SECONDS = 2.0
"""How soon another is woken if the one who went to ask has left."""


class Crowds:
    def __init__(self, wait: Wait, is_asked: Callable[[str, float], bool]) -> None:
        """`wait` returns a task once it has changed, or after some seconds; `is_asked`: someone asks its questions."""
        self._wait, self._is_asked = wait, is_asked
        self._crowds: dict[str, _Crowd] = {}

    def join(self, task: Task) -> asyncio.Future[Task]:
        """Return the task to come: terminal for all, or with questions for the one who is to ask them."""
        crowd = self._crowds.get(task.id)
        if crowd is None:
            crowd = self._crowds[task.id] = _Crowd()
            crowd.watch = asyncio.create_task(self._watch(crowd, task))
        seat: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        crowd.seats[seat] = asyncio.get_running_loop().time()
        seat.add_done_callback(partial(self._leave, crowd, task.id))
        return seat

    async def _watch(self, crowd: _Crowd, task: Task) -> None:
        try:
            while not task.status.is_terminal:
                if task.input_requests and not self._is_asked(task.id, max(crowd.seats.values(), default=0.0)):
                    _wake_last(crowd, task)
                if not crowd.seats:
                    break
                task = await self._wait(task, _ASKING_SECONDS if task.input_requests else _LONG_POLL_SECONDS)
        except Exception as error:
            for seat in self._dismissed(crowd, task.id):
                seat.set_exception(error)
        else:
            for seat in self._dismissed(crowd, task.id):
                seat.set_result(task)

    def _dismissed(self, crowd: _Crowd, task_id: str) -> list[asyncio.Future[Task]]:
        """Let whoever comes from now on be watched for anew."""
        self._crowds.pop(task_id, None)
        seats = [seat for seat in crowd.seats if not seat.done()]
        crowd.seats.clear()
        return seats

    def _leave(self, crowd: _Crowd, task_id: str, seat: asyncio.Future[Task]) -> None:
        if crowd.seats.pop(seat, None) is not None and not crowd.seats and self._crowds.get(task_id) is crowd:
            del self._crowds[task_id]
            crowd.watch.cancel()


def _wake_last(crowd: _Crowd, task: Task) -> None:
    while crowd.seats:
        seat, _ = crowd.seats.popitem()
        if not seat.done():
            seat.set_result(task)
            return


class _Crowd:
    watch: asyncio.Task[None]

    def __init__(self) -> None:
        self.seats: dict[asyncio.Future[Task], float] = {}
