"""How one claimed task is carried out: the work, and beside it the keeping of the lease."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from typing import Any

from msgspec import UNSET

from coatcheck.context import TaskContext
from coatcheck.engine import Engine
from coatcheck.errors import InvalidArgument, Refused, StoreError, TaskNotFound, ToolFailed
from coatcheck.lifecycle import Completed, Failed, Released, Renewed, WorkerEvent
from coatcheck.payload import decode, encode
from coatcheck.policy import duration
from coatcheck.task import Failure, Task
from coatcheck.tool import Outcome, Tool

logger = logging.getLogger("coatcheck")

_RETRY_SECONDS = 1.0
_HEAD_START_SECONDS = 0.005


class Execution:
    """One run of one task, under way as soon as it is made."""

    def __init__(self, engine: Engine, task: Task, tool: Tool) -> None:
        self._engine, self._tool, self._attempt = engine, tool, task.attempt
        self._context = TaskContext(engine, task, park=lambda: self.stop(Released(task.attempt)))
        self._stopped = asyncio.get_running_loop().create_future()
        self._parting: WorkerEvent | None = None
        self._job = asyncio.create_task(self._work(task))
        # Most calls are over before their lease needs keeping.
        self._keeper = asyncio.get_running_loop().call_later(_HEAD_START_SECONDS, self._start_keeping, task)
        self._helpers: list[asyncio.Task[None]] = []
        if tool.timeout is not None:
            self._helpers.append(asyncio.create_task(self._limit(duration("timeout", tool.timeout))))

    @property
    def task(self) -> Task:
        return self._context.task

    async def run(self) -> None:
        """Carry the task to its end and write what came of it, unless it was taken away meanwhile."""
        try:
            event = await self._outcome()
        finally:
            self._context.is_stopping = True
            self._keeper.cancel()
            for helper in (*self._helpers, self._job):
                helper.cancel()
        if event:
            await self._report(event)

    def stop(self, parting: WorkerEvent | None = None) -> None:
        """Stop the work. `parting` is what to write of it; None: someone else has written already."""
        if self._stopped.done() or self._job.done():
            return
        self._context.is_stopping, self._parting = True, parting
        self._stopped.set_result(None)
        self._job.cancel()

    def give_up(self) -> None:
        """Stop because this worker ends: another one goes on with it, or, if it may not, it fails."""
        reason = "The worker was shut down before the tool had finished, and the tool is not resumable"
        self.stop(Released(self._attempt) if self._context.task.resumable else self._failed(Failure(message=reason)))

    async def _work(self, task: Task) -> Any:
        try:
            return await self._tool.work(self._context, decode(task.call.arguments))
        except SystemExit as error:
            raise ToolFailed(f"Tool {self._tool.name} tried to end the process ({error})") from error

    async def _outcome(self) -> WorkerEvent | None:
        job = self._job
        await asyncio.wait((job, self._stopped), return_when=asyncio.FIRST_COMPLETED)
        if self._stopped.done():
            await asyncio.wait((job,), timeout=self._engine.policy.unwind.total_seconds())
            if not job.done():
                logger.warning("Tool %s ignores that it was stopped; its task is final all the same", self._tool.name)
            return self._parting
        return self._ended()

    def _ended(self) -> WorkerEvent | None:
        job = self._job
        if job.cancelled():
            return self._failed(Failure(message=f"Tool {self._tool.name} cancelled itself"))
        error = job.exception()
        if isinstance(error, Refused | TaskNotFound):
            return None
        try:
            if error is None:
                return self._completed(job.result())
            return self._failed(self._failure(error))
        except InvalidArgument as refusal:
            return self._failed(Failure(message=f"Tool {self._tool.name} returned no JSON: {refusal}"))

    def _completed(self, result: Any) -> Completed:
        outcome = result if isinstance(result, Outcome) else Outcome(result)
        return Completed(self._attempt, encode(outcome.value), outcome.is_error, self._engine.policy.retention)

    def _failure(self, error: BaseException) -> Failure:
        if isinstance(error, ToolFailed):
            data = UNSET if error.data is None else encode(error.data)
            return Failure(message=error.message, code=error.code, data=data)
        logger.warning("Tool %s failed", self._tool.name, exc_info=error)
        return Failure(message=f"{type(error).__name__}: {error}")

    def _failed(self, failure: Failure) -> Failed:
        return Failed(self._attempt, failure, self._engine.policy.retention)

    async def _report(self, event: WorkerEvent) -> None:
        """Write the outcome; while the store is out of order, keep trying, as the work is done and must not be lost."""
        while True:
            try:
                await self._context.flush()
                await self._engine.report(self._context.task, event)
            except (Refused, TaskNotFound):
                pass  # cancelled, expired or taken over meanwhile: that stands
            except StoreError as error:
                logger.error("The outcome of task %s is not written yet: %s", self._context.task.id, error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            return

    def _start_keeping(self, task: Task) -> None:
        self._helpers.append(asyncio.create_task(self._keep(task)))

    async def _keep(self, task: Task) -> None:
        """Renew the lease while the job runs; stop the job when the task is no longer ours."""
        engine, lease = self._engine, self._engine.policy.lease
        with suppress(Refused, TaskNotFound):
            while True:
                try:
                    task = await engine.wait(task, timeout=lease.total_seconds() / 3)
                    if task.lease is None or task.attempt != self._attempt:
                        break
                    if task.lease.is_stalled or task.lease.until - engine.clock() < lease * 0.7:
                        task = await engine.report(task, Renewed(self._attempt, engine.clock() + lease))
                except StoreError as error:
                    logger.error("The lease of task %s is not renewed yet: %s", task.id, error)
                    await asyncio.sleep(_RETRY_SECONDS)
        self.stop()

    async def _limit(self, limit: timedelta) -> None:
        """Stop the job after its time; what it spent waiting for answers is not counted."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        while (left := limit.total_seconds() + self._context.seconds_waited() - (loop.time() - started)) > 0:  # noqa: ASYNC110
            await asyncio.sleep(max(left, 1.0) if self._context.is_asking else left)
        self.stop(self._failed(Failure(message=f"Tool {self._tool.name} took longer than its {limit} and was stopped")))
