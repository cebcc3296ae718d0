"""What a job asks, put to whoever called: each question once, and the answer taken to the job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any

from coatcheck.context import TaskContext
from coatcheck.errors import NotAnswered, ToolFailed
from coatcheck.executor import AnswersQuestions, Executor, JobQuestion
from coatcheck.executors.pace import Pace
from coatcheck.executors.persistence import Value, persistently

_NOBODY = {"action": "cancel"}


class Questions:
    """The open questions of one job. They are the task's own, so their answers outlive a worker."""

    def __init__(self, executor: Executor, context: TaskContext, pace: Pace) -> None:
        self._executor, self._context, self._pace = executor, context, pace
        self._asked: dict[str, asyncio.Task[None]] = {}

    def hear(self, job_id: str, questions: Mapping[str, JobQuestion]) -> None:
        """Ask what is new; withdraw what the job does not want to know any more."""
        for key in sorted(questions.keys() - self._asked.keys()):  # sorted: equal ones are told apart by their order
            self._asked[key] = asyncio.create_task(self._ask(job_id, key, questions[key]))
        for key in self._asked.keys() - questions.keys():
            self._asked[key].cancel()

    async def meanwhile(self, looking: Awaitable[Value]) -> Value:
        """Wait for something else, while questions are open.

        Raises:
            ToolFailed: A question cannot be asked.
            JobRefused: Its answer is not taken.
        """
        look = asyncio.ensure_future(looking)
        try:
            while not look.done():
                is_open = [asked for asked in self._asked.values() if not asked.done()]
                await asyncio.wait([look, *is_open], return_when=asyncio.FIRST_COMPLETED)
                for asked in self._asked.values():
                    if asked.done() and not asked.cancelled():
                        asked.result()
            return look.result()
        finally:
            look.cancel()

    async def close(self) -> None:
        for asked in self._asked.values():
            asked.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)

    async def _ask(self, job_id: str, key: str, question: JobQuestion) -> None:
        if not isinstance(self._executor, AnswersQuestions):
            raise ToolFailed(f"A job asks something, and {self._executor.name} takes no answers")
        try:
            answer: Mapping[str, Any] = await self._context.elicit(question.message, question.schema)
        except NotAnswered:
            answer = _NOBODY
        await persistently(partial(self._executor.answer, job_id, key, answer), self._pace)
