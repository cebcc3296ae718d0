"""A task and its children, as its running work has them: how far they are, and what they ask, is passed on."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from functools import partial
from typing import Any

from coatcheck.context import TaskContext
from coatcheck.engine import Engine
from coatcheck.errors import NotAnswered, Refused, TaskNotFound
from coatcheck.payload import decode
from coatcheck.task import InputRequest, Task

_LONG_POLL_SECONDS = 3600.0


def family_of(context: TaskContext, engine: Engine) -> Family:
    """Return the family of running work: one for as long as it runs."""
    if context.family is None:
        context.family = Family(context, engine)
    return context.family


class Family:
    def __init__(self, context: TaskContext, engine: Engine) -> None:
        self._context, self._engine = context, engine
        self._done: dict[str, float] = {}
        """How far each child is, from 0 to 1."""
        self._followers: dict[str, asyncio.Task[Task]] = {}

    async def welcome(self, child: Task) -> None:
        """Count a child in from now on."""
        self._done.setdefault(child.id, 0.0)
        await self._roll_up(child)

    async def follow(self, child: Task) -> Task:
        """Return a child once it has ended. From now on, also when nobody waits any more, its questions are put to the
        caller of its parent: whoever looks again and again must not take back what is being asked.
        """
        with self._context.standing_aside():
            return await asyncio.shield(self._follower(child))

    async def close(self) -> None:
        """Follow nobody any more, as the work has ended. What is being asked is taken back, unless it is to go on."""
        for follower in self._followers.values():
            follower.cancel()
        await asyncio.gather(*self._followers.values(), return_exceptions=True)

    def _follower(self, child: Task) -> asyncio.Task[Task]:
        follower = self._followers.get(child.id)
        if follower is None or follower.done():
            follower = self._followers[child.id] = asyncio.create_task(self._follow(child))
        return follower

    async def _follow(self, child: Task) -> Task:
        relays: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                await self._roll_up(child)
                if child.status.is_terminal:
                    return child
                self._relay(child, relays)
                child = await self._news(child, relays)
        finally:
            for relay in relays.values():
                relay.cancel()
            await asyncio.gather(*relays.values(), return_exceptions=True)

    async def _news(self, child: Task, relays: dict[str, asyncio.Task[None]]) -> Task:
        """Wait for the child to change; whatever a relay fails with ends the waiting, too."""
        look = partial(self._engine.wait, child, _LONG_POLL_SECONDS)
        news = asyncio.ensure_future(self._context.outlasting(look))
        try:
            while not news.done():
                await asyncio.wait((news, *relays.values()), return_when=asyncio.FIRST_COMPLETED)
                for key in [key for key, relay in relays.items() if relay.done()]:
                    relays.pop(key).result()
            return news.result()
        finally:
            news.cancel()

    def _relay(self, child: Task, relays: dict[str, asyncio.Task[None]]) -> None:
        """Have each open question asked, and none that is no longer open."""
        for key in relays.keys() - child.input_requests.keys():
            relays.pop(key).cancel()
        for key in child.input_requests.keys() - relays.keys():
            relays[key] = asyncio.create_task(self._ask(child, key, child.input_requests[key]))

    async def _ask(self, child: Task, key: str, request: InputRequest) -> None:
        """Put one question of a child to its parent's caller, under a name of its own, and pass the answer on."""
        name = hashlib.blake2b(f"{child.id} {key}".encode(), digest_size=8).hexdigest()
        schema: Any = decode(request.answer_schema) if request.answer_schema else None
        params, judges = decode(request.params), request.judges_itself
        try:
            answer = await self._context.ask(request.method, params, schema, judges_itself=judges, key=name)
            delivery = partial(self._engine.answer, child.id, child.owner, {key: answer}, is_final=True)
        except NotAnswered as error:
            refusal: dict[str, Any] = {"message": error.message, "code": error.code, "data": error.data}
            delivery = partial(self._engine.answer_with_error, child.id, child.owner, key, **refusal)
        with suppress(Refused, TaskNotFound):  # it needs no answer any more
            await self._context.outlasting(delivery)

    async def _roll_up(self, child: Task) -> None:
        self._done[child.id] = max(_fraction(child), self._done.get(child.id, 0.0))
        said = child.status_message
        message = f"{child.call.tool}: {said}" if said and not child.status.is_terminal else None
        with suppress(Refused, TaskNotFound):  # its work is about to be told
            await self._context.roll_up(round(sum(self._done.values()), 4), float(len(self._done)), message)


def _fraction(task: Task) -> float:
    if task.status.is_terminal:
        return 1.0
    progress = task.progress
    return min(progress.done / progress.total, 1.0) if progress and progress.total else 0.0
