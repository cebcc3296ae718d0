"""The `Executor` port: engines that own the work, such as Temporal or the job API of a cloud."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import msgspec

from coatcheck.errors import CoatcheckError
from coatcheck.task import Progress


class JobState(StrEnum):
    """Where a job is. Whatever else an engine tells apart before the end is `running`."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self is not JobState.RUNNING


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done, and under which key."""

    key: str
    """32 hexadecimal digits: the same for every repeat of this request, and for no other. It tells no task's id."""
    name: str
    """Which kind of job it is."""
    arguments: Mapping[str, Any] = {}
    deadline: datetime | None = None
    """When the task's lifetime ends, as far as it is known: a job that still runs then is of no use to anyone."""
    owner: str | None = None
    """Whose task it is. For executors that act for people; ours does not pass it on."""


class JobError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job has no result, in the words of its engine."""

    message: str
    code: int | str | None = None
    data: Any = None


class JobQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a job wants to know of whoever called, with the JSON Schema of the answer's content."""

    message: str
    schema: Mapping[str, Any]


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a job stands."""

    state: JobState
    progress: Progress | None = None
    message: str | None = None
    result: Any = None
    """What it returned, as JSON-like values, once it has succeeded."""
    error: JobError | None = None
    """Why, once it has failed."""
    questions: Mapping[str, JobQuestion] = {}
    """What it waits for, by keys of its own, each used once. For executors that are `AnswersQuestions` too."""
    look_again_after: float | None = None
    """In how many seconds its engine wants to be asked again, if it said so."""
    tag: str | None = None
    """What an engine that can wait for news calls this state of the job."""


class JobNotFound(CoatcheckError):
    """The engine does not know the job, or not any more."""


class JobRefused(CoatcheckError):
    """The engine refuses what it was asked, and would refuse it again."""

    def __init__(self, message: str, code: int | str | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.error = JobError(message=message, code=code, data=data)


class ExecutorUnavailable(CoatcheckError):
    """The engine cannot be asked just now; the same may succeed in `retry_after` seconds, or whenever it is back."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Executor(Protocol):
    """Starts jobs, tells how they stand, and stops them. It keeps nothing itself: any process may ask for any job.

    Every method may raise ExecutorUnavailable, OSError or TimeoutError, and is then called again.
    """

    @property
    def name(self) -> str:
        """A name that stays the same after a restart: tasks remember by it whose their jobs are."""
        ...

    async def submit(self, request: JobRequest) -> str:
        """Start a job and return its id. However often, and by however many at once, a key stands for one job.

        Raises:
            JobRefused: There is no such job to be had.
        """
        ...

    async def status(self, job_id: str, *, wait: float = 0.0, since: JobStatus | None = None) -> JobStatus:
        """Return how the job stands; if the engine can, once it is not as in `since`, or `wait` seconds have passed.

        Raises:
            JobNotFound: There is no such job, or not any more.
        """
        ...

    async def cancel(self, job_id: str) -> None:
        """Have the job stopped. One that has ended, or is not known, is none to stop, and that is no error."""
        ...

    async def attach(self, key: str) -> str | None:
        """Return the id of the job that was submitted under a key. None: there is none, or it cannot be told."""
        ...


@runtime_checkable
class AnswersQuestions(Protocol):
    """What an executor has as well if its jobs ask."""

    async def answer(self, job_id: str, question: str, answer: Mapping[str, Any]) -> None:
        """Give a job what it asked for: an `action` (accept, decline, cancel) and, if accepted, `content`.

        It may be given twice, if whoever gave it died. The second time is no error, and changes nothing.
        """
        ...
