"""The tools for tasks: list, look, wait for the result, cancel."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from coatcheck.client.wire import Json
from coatcheck.dialects.words import write_error
from coatcheck.engine import utc_now
from coatcheck.errors import AlreadyFinished, TaskNotFound
from coatcheck.payload import decode
from coatcheck.proxy.meta.counter import Caller, Counter, Ctx, Whole
from coatcheck.proxy.meta.records import shown, tasks_of
from coatcheck.proxy.meta.refusals import (
    TASK_CANCELLED,
    TASK_EXPIRED,
    TASK_FAILED,
    TASK_NOT_FOUND,
    TIMEOUT,
    ToolRefusal,
    of_mcp_error,
)
from coatcheck.proxy.states import task_status
from coatcheck.proxy.work import Errand, errand_of
from coatcheck.server.failures import raised
from coatcheck.task import Task

TaskId = Annotated[str, Field(description="The task's id, as execute_tool gave it")]
TaskStatus = Literal["working", "completed", "failed", "cancelled", "expired"]


class TaskTools:
    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    async def list_tasks(
        self,
        ctx: Ctx,
        server: Annotated[str | None, Field(description="Only tasks of this server")] = None,
        status: Annotated[TaskStatus | None, Field(description="Only tasks with this status")] = None,
        include_completed: Annotated[bool, Field(description="Also those that have ended")] = False,
    ) -> Json:
        """List the tasks that your calls became."""
        caller = await self._counter.caller(ctx)
        found = await tasks_of(self._counter.tasking.running.engine, caller.owner)
        tasks = [
            shown(task, errand)
            for task, errand in found
            if (server is None or errand.server == server)
            and (status is None or task_status(task) == status)
            and (include_completed or status is not None or not task.status.is_terminal)
        ]
        self._counter.tasking.running.desk.audit.listed(caller.owner, len(tasks))
        return {"tasks": tasks}

    async def get_task(self, ctx: Ctx, task_id: TaskId) -> Json:
        """Look at a task, and at what its server waits for you to answer."""
        caller = await self._counter.caller(ctx)
        task, errand = await self._found(caller, task_id)
        return {
            "task": shown(task, errand),
            "pending_elicitations_for_server": caller.elicitations(errand.server, task_id),
        }

    async def get_task_result(
        self,
        ctx: Ctx,
        task_id: TaskId,
        timeout_ms: Annotated[
            int | None, Field(ge=0, description="How long to wait at most; if left out, as long as the task lives")
        ] = None,
    ) -> Whole:
        """Wait for a task and return the result of the tool."""
        caller = await self._counter.caller(ctx)
        task, errand = await self._found(caller, task_id)
        seconds = _seconds_left(task, errand) if timeout_ms is None else timeout_ms / 1000
        try:
            task = await self._counter.awaited(caller, task, seconds)
        except TaskNotFound as error:
            raise ToolRefusal(TASK_EXPIRED, f"Task {task_id} has expired; its result is gone.") from error
        return Whole(_result(task))

    async def cancel_task(self, ctx: Ctx, task_id: TaskId) -> Json:
        """Stop a task. What it has done already is not undone."""
        caller = await self._counter.caller(ctx)
        await self._found(caller, task_id)
        try:
            await self._counter.tasking.running.desk.cancel(task_id, caller.owner)
        except AlreadyFinished:
            task, _ = await self._found(caller, task_id)
            return {"success": False, "message": f"Task {task_id} is already {task_status(task)}."}
        return {"success": True, "message": f"Task {task_id} was cancelled."}

    async def _found(self, caller: Caller, task_id: str) -> tuple[Task, Errand]:
        try:
            task = await self._counter.tasking.running.desk.get(task_id, caller.owner)
            if errand := errand_of(task):
                return task, errand
        except TaskNotFound:
            pass
        raise ToolRefusal(TASK_NOT_FOUND, f"There is no task {task_id!r}; list_tasks shows what there is.")


def _seconds_left(task: Task, errand: Errand) -> float:
    if errand.lifetime is None:
        return (task.expires_at - utc_now()).total_seconds() if task.expires_at else 3600.0
    # A moment more than it has, so that how it ended can still be told.
    return max(0.0, errand.lifetime - (utc_now() - task.created_at).total_seconds()) + 5.0


def _result(task: Task) -> Json:
    """Return what the tool returned.

    Raises:
        ToolRefusal: There is no result, or not yet.
    """
    match task_status(task):
        case "working":
            raise ToolRefusal(TIMEOUT, f"Task {task.id} has not ended yet; ask again, or wait with await_activity.")
        case "cancelled":
            raise ToolRefusal(TASK_CANCELLED, f"Task {task.id} was cancelled, so there is no result.")
        case "completed":
            return decode(task.result)
        case "expired":
            said = task.failure.message if task.failure else "its time was up"
            raise ToolRefusal(TASK_EXPIRED, f"Task {task.id} has expired: {said}.")
        case _:
            assert task.failure
            refusal = of_mcp_error(raised(write_error(task.failure)))
            raise ToolRefusal(TASK_FAILED, str(refusal), cause=refusal.code, **refusal.details)
