"""How one claimed task is carried out: the work, and beside it the keeping of the lease."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Set
from contextlib import suppress
from datetime import timedelta
from typing import Any

from msgspec import UNSET

from coatcheck.context import TaskContext
from coatcheck.engine import Engine
from coatcheck.errors import InvalidArgument, Refused, StoreError, TaskNotFound, ToolFailed
from coatcheck.lifecycle import Completed, Failed, Released, Renewed, WorkerEvent
from coatcheck.payload import decode, encode, text
from coatcheck.policy import Policy, duration
from coatcheck.task import Failure, Task
from coatcheck.tool import Outcome, Tool

logger = logging.getLogger("coatcheck")

_RETRY_SECONDS = 1.0
_HEAD_START_SECONDS = 0.005
_LAST_SECONDS = 5.0
"""For writing outcomes when a worker stops, beyond what work has to unwind: the store may be away."""


class Execution:
    """One run of one task, under way as soon as it is made. Thousands may sleep at once, so no coroutine just waits
    for the job: what comes after it is a callback.
    """

    __slots__ = (
        "_attempt",
        "_context",
        "_ended",
        "_engine",
        "_is_over",
        "_is_stopped",
        "_job",
        "_keeper",
        "_limiter",
        "_parting",
        "_report_task",
        "_tool",
        "_unwinding",
    )

    def __init__(
        self,
        engine: Engine,
        task: Task,
        tool: Tool,
        ended: Callable[[Execution], None],
        aside: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """`ended` is called when nothing is left to do, `aside` as `TaskContext` says."""
        self._engine, self._tool, self._attempt, self._ended = engine, tool, task.attempt, ended
        self._context = TaskContext(engine, task, park=self._park, aside=aside)
        self._is_stopped = self._is_over = False
        self._parting: WorkerEvent | None = None
        self._unwinding: asyncio.TimerHandle | None = None
        self._limiter: asyncio.Task[None] | None = None
        self._report_task: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self._job = loop.create_task(self._work())
        self._job.add_done_callback(self._after)
        # Most calls are over before their lease needs keeping.
        self._keeper: asyncio.TimerHandle | asyncio.Task[None]
        self._keeper = loop.call_later(_HEAD_START_SECONDS, self._start_keeping)
        if tool.timeout is not None:
            self._limiter = loop.create_task(self._limit(duration("timeout", tool.timeout)))

    @property
    def task(self) -> Task:
        return self._context.task

    def stop(self, parting: WorkerEvent | None = None) -> None:
        """Stop the work. `parting` is what to write of it; None: someone else has written already."""
        if self._is_stopped or self._job.done():
            return
        self._is_stopped = self._context.is_stopping = True
        self._parting = parting
        self._job.cancel()
        unwind = self._engine.policy.unwind.total_seconds()
        self._unwinding = asyncio.get_running_loop().call_later(unwind, self._abandon)

    def give_up(self) -> None:
        """Stop because this worker ends: another one goes on with it, or, if it may not, it fails."""
        reason = "The worker was shut down before the tool had finished, and the tool is not resumable"
        self.stop(Released(self._attempt) if self._context.task.resumable else self._failed(Failure(message=reason)))

    def drop(self) -> None:
        """Try no longer to write the outcome; nothing is left to do then."""
        if self._report_task:
            self._report_task.cancel()
        else:
            self._finish(None)

    def _park(self) -> None:
        self.stop(Released(self._attempt))

    async def _work(self) -> Any:
        try:
            return await self._tool.work(self._context, decode(self._context.task.call.arguments))
        except SystemExit as error:
            raise ToolFailed(f"Tool {self._tool.name} tried to end the process ({error})") from error

    def _after(self, job: asyncio.Task[Any]) -> None:
        error = None if job.cancelled() else job.exception()  # looked at in any case, or asyncio complains
        if self._is_over:
            return
        if self._is_stopped:
            self._finish(self._parting)
        elif job.cancelled() and job.cancelling():
            self._finish(None)  # the loop is being closed under us; the lease tells the others
        else:
            self._finish(self._outcome(job, error))

    def _abandon(self) -> None:
        logger.warning("Tool %s ignores that it was stopped; its task is final all the same", self._tool.name)
        self._finish(self._parting)

    def _finish(self, event: WorkerEvent | None) -> None:
        self._is_over = self._context.is_stopping = True
        for helper in (self._keeper, self._limiter, self._unwinding):
            if helper:
                helper.cancel()
        if event is None:
            self._ended(self)
            return
        self._report_task = asyncio.get_running_loop().create_task(self._report(event))
        self._report_task.add_done_callback(self._reported)

    def _reported(self, report: asyncio.Task[None]) -> None:
        if not report.cancelled() and (error := report.exception()):
            logger.error("Task %s was dropped", self.task.id, exc_info=error)
        self._ended(self)

    def _outcome(self, job: asyncio.Task[Any], error: BaseException | None) -> WorkerEvent | None:
        if job.cancelled():
            return self._failed(Failure(message=f"Tool {self._tool.name} cancelled itself"))
        if was_taken_away(error, self.task.id):
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
            return Failure(message=text(error.message), code=error.code, data=data)
        logger.warning("Tool %s failed", self._tool.name, exc_info=error)
        return Failure(message=f"{type(error).__name__}: {text(error)}")

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

    def _start_keeping(self) -> None:
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def _keep(self) -> None:
        """Renew the lease while the job runs; stop the job when the task is no longer ours."""
        engine, lease = self._engine, self._engine.policy.lease
        while True:
            try:
                # The context has the only copy: a second one for each of thousands would be as much again.
                if (fresh := await engine.newer(self.task, timeout=lease.total_seconds() / 2)) is None:
                    break
                self._context.learn(fresh)
                del fresh
                held = self.task.lease
                if held is None or self.task.attempt != self._attempt:
                    break
                if held.is_stalled or held.until - engine.clock() < lease * 0.7:
                    renewed = Renewed(self._attempt, engine.clock() + lease)
                    self._context.learn(await engine.report(self.task, renewed))
            except (Refused, TaskNotFound):
                break
            except Exception as error:  # whatever it is: a job without its keeper would run on for ever
                known = isinstance(error, StoreError)
                logger.error(
                    "The lease of task %s is not renewed yet: %s",
                    self.task.id,
                    error,
                    exc_info=None if known else error,
                )
                await asyncio.sleep(_RETRY_SECONDS)
        self.stop()

    async def _limit(self, limit: timedelta) -> None:
        """Stop the job after its time; what it spent waiting for answers is not counted."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        while (left := limit.total_seconds() + self._context.seconds_waited() - (loop.time() - started)) > 0:  # noqa: ASYNC110
            await asyncio.sleep(max(left, 1.0) if self._context.is_asking else left)
        self.stop(self._failed(Failure(message=f"Tool {self._tool.name} took longer than its {limit} and was stopped")))


def was_taken_away(error: BaseException | None, task_id: str) -> bool:
    """Whether an error says that this task is no longer its worker's. One of another task says nothing of it."""
    return isinstance(error, Refused | TaskNotFound) and getattr(error, "task_id", task_id) == task_id


async def wind_up(runs: Set[Execution], over: Callable[[], Awaitable[object]], policy: Policy) -> None:
    """Hand what still runs to others, or fail it if it may not be run again; and return once all is `over`.

    What cannot be written by then, because the store is away, is left to whoever sees that the lease has run out.
    """
    for execution in list(runs):
        execution.give_up()
    with suppress(TimeoutError):
        await asyncio.wait_for(over(), policy.unwind.total_seconds() + _LAST_SECONDS)
    if runs:
        logger.error(
            "Stopped without writing the outcomes of %d tasks, as the store is away; they count as lost once their "
            "leases have run out",
            len(runs),
        )
    for execution in list(runs):
        execution.drop()
    await over()
