"""A task of your own code, as that has it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from coatcheck.answers import answer_of, open_question
from coatcheck.engine import Engine
from coatcheck.errors import AlreadyFinished, TaskCancelled, ToolFailed
from coatcheck.family import Family
from coatcheck.payload import decode
from coatcheck.server.bodies.kinds import Kind
from coatcheck.task import NOTHING, Failure, Status, Task

Result = TypeVar("Result")
_FOREVER = 10.0**9
Action = Literal["accept", "decline", "cancel"]


class LocalTask(Generic[Result]):
    """A handle: what it stands for goes on without it. Every verb raises TaskNotFound once the task has expired."""

    def __init__(self, engine: Engine, task: Task, kind: Kind[Result], family: Family | None = None) -> None:
        """`family` is that of the work which made it, if it is a child."""
        self._engine, self._kind, self._family = engine, kind, family
        self.latest = task
        """The task as it was last seen."""

    @property
    def id(self) -> str:
        return self.latest.id

    def __await__(self) -> Generator[Any, None, Result]:
        return self.result().__await__()

    def __repr__(self) -> str:
        return f"<LocalTask of {self.latest.call.tool}: {self.latest.status.value}>"

    async def fetch(self) -> Task:
        """Return the task as it is now."""
        return self._saw(await self._engine.get(self.id, self.latest.owner))

    async def changed(self, timeout: float = 3600) -> Task:
        """Return the task once it is other than when it was last seen, or as it is after `timeout` seconds."""
        return self._saw(await self._engine.wait(self.latest, timeout))

    async def wait(self, timeout: float | None = None) -> Task:
        """Return the task once it has ended, or as it is after `timeout` seconds. Nothing is cancelled by that."""
        if self._family is None:
            return self._saw(await self._engine.finished(self.latest, _FOREVER if timeout is None else timeout))
        try:
            async with asyncio.timeout(timeout):
                return self._saw(await self._family.follow(self.latest))
        except TimeoutError:
            return await self.fetch()

    async def result(self, timeout: float | None = None) -> Result:
        """Return what the call returned, as if it had never been a task.

        Raises:
            ToolFailed: It ended with an error of the protocol, or was lost.
            TaskCancelled: It was cancelled.
            TimeoutError: It had not ended after `timeout` seconds. It goes on.
        """
        task = await self.wait(timeout)
        if task.status is Status.COMPLETED:
            return self._kind.read(task.result or NOTHING)
        if task.failure:
            raise _failed(task.call.tool, task.failure)
        if task.status is Status.CANCELLED:
            raise TaskCancelled(task.id, task.status_message)
        raise TimeoutError(f"Task {task.id} has not ended after {timeout:g} s; it goes on, ask for its result again.")

    async def cancel(self, reason: str | None = None) -> Task:
        """Cancel it at once, and its children with it.

        Raises:
            AlreadyFinished: It had ended.
        """
        return self._saw(await self._engine.cancel(self.id, self.latest.owner, reason))

    async def send_input(
        self, action: Action = "accept", content: Mapping[str, Any] | str | None = None, *, question: str | None = None
    ) -> Task:
        """Answer the question it asks; `question` says which, if there are several.

        Raises:
            InvalidArgument: It asks nothing, or several questions.
            InvalidAnswer: The answer does not fit. The question is still open.
            AlreadyFinished: It has ended.
        """
        task = await self.fetch()
        if task.status.is_terminal:
            raise AlreadyFinished(task.id, task.status)
        key = open_question(task, question)
        return await self.answer({key: answer_of(task.input_requests[key], action, content)})

    async def answer(self, responses: Mapping[str, Any]) -> Task:
        """Answer questions in the protocol's own words, by their keys.

        Raises:
            InvalidAnswer: One does not fit. None was taken.
            AlreadyFinished: It has ended.
        """
        return self._saw(await self._engine.answer(self.id, self.latest.owner, responses))

    def _saw(self, task: Task) -> Task:
        self.latest = task
        return task


def _failed(tool: str, failure: Failure) -> ToolFailed:
    """Return an error of the tool's own as it raised it; what became of the task otherwise, with whose task it was."""
    message = failure.message if failure.code is not None else f"The task of {tool} failed: {failure.message}"
    return ToolFailed(message, failure.code, decode(failure.data) if failure.data else None)


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Tasks of an owner, newest first."""

    tasks: Sequence[LocalTask[Any]]
    next_cursor: str | None
    """Where to go on, if there are more."""
