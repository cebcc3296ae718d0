"""One job of one task: handed in once, followed to its end, also by the next worker, and stopped with its task."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from coatcheck.context import TaskContext
from coatcheck.errors import AlreadyFinished, InvalidArgument, LeaseLost, Refused, StoreError, TaskNotFound, ToolFailed
from coatcheck.executor import Executor, JobError, JobNotFound, JobRefused, JobRequest, JobState, JobStatus
from coatcheck.executors.pace import Pace
from coatcheck.executors.persistence import Value, persistently
from coatcheck.executors.questions import Questions
from coatcheck.payload import decode
from coatcheck.task import Progress, Status

logger = logging.getLogger("coatcheck")

KEY, ID = "job-key:", "job-id:"
"""What a job's entries in the journal are named, before the name of its executor."""
_LONGEST_MESSAGE = 1000
_PROBE_SECONDS = 0.05


class JobRun:
    """What one run of a task has to do with one job."""

    def __init__(self, executor: Executor, context: TaskContext, pace: Pace) -> None:
        self._executor, self._context, self._pace = executor, context, pace
        self._key_entry = context.step_key(f"{KEY}{executor.name}")
        self._id_entry = context.step_key(f"{ID}{executor.name}")
        task_id = context.task.id
        # A call that is no task is never run again, so any key will do.
        self._key = key_of(task_id, self._key_entry) if task_id else secrets.token_hex(16)
        self._job_id: str | None = None
        self._request: asyncio.Future[str] | None = None
        self._is_over = True
        """Whether there is nothing to stop: nothing was started yet, or it has ended."""
        self._told: tuple[Progress | None, str | None] = (None, None)
        self._is_troubled = False

    async def result(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Return what the job returns.

        Raises:
            ToolFailed: It failed, was refused, was cancelled over there, or is gone.
        """
        try:
            self._job_id = await self._find() or await self._submit(name, arguments)
            status = await self._follow(self._job_id)
        except JobRefused as error:
            raise _failed(error.error) from error
        if status.state is JobState.SUCCEEDED:
            return status.result
        if status.state is JobState.CANCELLED:
            raise ToolFailed(status.message or f"The job was cancelled at {self._executor.name}, not by its task")
        raise _failed(status.error or JobError(message=status.message or "The job has failed, and gave no reason"))

    def is_left_behind(self, error: BaseException) -> bool:
        """Whether there may be a job to be stopped, now that the run has ended with an error."""
        return not (self._is_over or isinstance(error, LeaseLost) or _is_completed(error))

    async def part(self, error: BaseException) -> None:
        """Stop the job; unless the task goes on, and another worker will want it."""
        context = self._context
        if isinstance(error, asyncio.CancelledError) and context.is_stopping and not await _has_ended(context):
            return
        try:
            async with asyncio.timeout(self._pace.persistence):
                job_id = self._job_id or await self._landed()
                job_id = job_id or await persistently(partial(self._executor.attach, self._key), self._pace)
                if job_id:
                    await persistently(partial(self._executor.cancel, job_id), self._pace)
        except Exception as trouble:
            logger.error("A job of %s may run on, though its task has ended: %r", self._executor.name, trouble)

    async def _find(self) -> str | None:
        """Return the job that an earlier run handed in, if one did. It may not have lived to write down which."""
        if (recorded := await self._persist(partial(self._context.recall, self._id_entry))) is not None:
            self._is_over = False
            return decode(recorded)
        if await self._context.recall(self._key_entry) is None:
            return None
        self._is_over = False
        found = await self._persist(partial(self._executor.attach, self._key))
        if found is not None:
            self._job_id = found
            await self._persist(partial(self._context.record, self._id_entry, found))
        return found

    async def _submit(self, name: str, arguments: Mapping[str, Any]) -> str:
        task = self._context.task
        request = JobRequest(key=self._key, name=name, arguments=arguments, deadline=task.expires_at, owner=task.owner)
        if self._is_over:  # before anything is started, so that whoever comes next knows what to look for
            await self._persist(partial(self._context.record, self._key_entry, self._key))
        self._is_over = False
        self._job_id = await self._persist(partial(self._send, request))
        await self._persist(partial(self._context.record, self._id_entry, self._job_id))
        return self._job_id

    async def _send(self, request: JobRequest) -> str:
        """Send one request, to its end also if the run is stopped: else nobody could tell what has become of it."""
        self._request = asyncio.ensure_future(self._executor.submit(request))
        self._request.add_done_callback(_look_at)
        return await asyncio.shield(self._request)

    async def _landed(self) -> str | None:
        """Return the job of a request that was under way when the run was stopped."""
        if self._request:
            with suppress(Exception):
                return await self._request
        return None

    async def _follow(self, job_id: str) -> JobStatus:
        questions = Questions(self._executor, self._context, self._pace)
        loop, quiet = asyncio.get_running_loop(), 0
        status: JobStatus | None = None
        try:
            while True:
                began = loop.time()
                status = await questions.meanwhile(self._persist(partial(self._look, job_id, status)))
                if status.state.is_over:
                    self._is_over = True
                    return status
                quiet = 0 if await self._tell(status) else quiet + 1
                questions.hear(job_id, status.questions)
                pause = self._pace.between_looks(quiet, status.look_again_after)
                await questions.meanwhile(asyncio.sleep(began + pause - loop.time()))
        except JobNotFound as error:
            self._is_over = True
            raise ToolFailed(f"The job is not known to {self._executor.name} any more: {error}") from error
        finally:
            await questions.close()

    def _look(self, job_id: str, since: JobStatus | None) -> Awaitable[JobStatus]:
        wait = 0.0 if self._is_troubled else self._pace.wait  # that all is well again is worth telling at once
        return self._executor.status(job_id, wait=wait, since=since)

    async def _tell(self, status: JobStatus) -> bool:
        """Pass on what the job says of itself; return whether that is news."""
        news = status.progress, status.message
        if news == self._told:
            return False
        self._told = news
        message = status.message[:_LONGEST_MESSAGE] if status.message else None
        with suppress(InvalidArgument, StoreError):  # what a job says is not worth ending it
            if status.progress:
                await self._context.progress(status.progress.done, status.progress.total, message)
            elif message:
                await self._context.note(message)
        return True

    async def _persist(self, ask: Callable[[], Awaitable[Value]]) -> Value:
        value = await persistently(ask, self._pace, self._troubled)
        if self._is_troubled:
            self._is_troubled = False
            with suppress(StoreError):
                await self._context.note(self._told[1] or "The job goes on")
        return value

    async def _troubled(self, error: Exception) -> None:
        logger.warning("Trying again for task %s: %s", self._context.task.id, error)
        self._is_troubled = True
        with suppress(StoreError):
            await self._context.note(f"{self._executor.name} cannot be asked just now, trying again: {error}")


def key_of(task_id: str, entry: str) -> str:
    """Return the key of a job. Whoever has a task's id may have its result, so the id itself is not told."""
    return hashlib.blake2b(f"{task_id}\n{entry}".encode(), digest_size=16).hexdigest()


async def _has_ended(context: TaskContext) -> bool:
    """Return, once it is written why the run was stopped, whether its task has ended with it.

    One that is completed by then was so by another worker, with the same job.
    """
    while not context.task.status.is_terminal:
        try:
            await context.note("")
            await context.flush()
        except AlreadyFinished as error:
            return not _is_completed(error)
        except TaskNotFound:
            return True
        except Refused:
            return False
        except StoreError as error:
            logger.debug("Looking again: %s", error)
        await asyncio.sleep(_PROBE_SECONDS)
    return context.task.status is not Status.COMPLETED


def _is_completed(error: BaseException) -> bool:
    return isinstance(error, AlreadyFinished) and error.status == Status.COMPLETED


def _failed(error: JobError) -> ToolFailed:
    """Return the failure of a task, whose code is a number; other codes are kept beside the data."""
    if not isinstance(error.code, str):
        return ToolFailed(error.message, error.code, error.data)
    data = {"code": error.code} if error.data is None else {"code": error.code, "data": error.data}
    return ToolFailed(error.message, None, data)


def _look_at(request: asyncio.Future[str]) -> None:
    """An error that nobody looks at is complained of by asyncio."""
    if not request.cancelled():
        request.exception()
