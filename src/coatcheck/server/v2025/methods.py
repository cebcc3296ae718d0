"""`tasks/get`, `tasks/result`, `tasks/list` and `tasks/cancel`, as 2025-11-25 has them."""

from __future__ import annotations

from typing import Any

from mcp.shared.exceptions import MCPError

from coatcheck.dialects import v2025
from coatcheck.dialects.words import INVALID_PARAMS, METHOD_NOT_FOUND
from coatcheck.errors import AlreadyFinished
from coatcheck.server.calls.caller import Acquaintances
from coatcheck.server.failures import as_protocol_errors, raised
from coatcheck.server.hook import RequestContext
from coatcheck.server.listing import page
from coatcheck.server.params import ListParams, TaskParams
from coatcheck.server.polling import Polls
from coatcheck.server.runtime import Runtime
from coatcheck.server.waiting.seat import take_seat


class Methods:
    def __init__(self, runtime: Runtime, polls: Polls, acquaintances: Acquaintances) -> None:
        self._runtime, self._polls, self._acquaintances = runtime, polls, acquaintances

    async def get(self, ctx: RequestContext, params: TaskParams) -> dict[str, Any]:
        with as_protocol_errors():
            return v2025.write_seen(await self._polls.poll(params.task_id, self._owner(ctx)))

    async def result(self, ctx: RequestContext, params: TaskParams) -> dict[str, Any]:
        """Wait for the task to end, asking what it asks meanwhile, and answer as the call would have been answered."""
        running = self._runtime.running
        with as_protocol_errors():
            task = await running.desk.get(params.task_id, self._owner(ctx))
            if await take_seat(ctx, task):
                return {}
            task = await running.vigils.keep(ctx, task, knows_task=True)
        if error := v2025.error_of(task):
            raise raised(error)
        return v2025.write_result(task)

    async def list(self, ctx: RequestContext, params: ListParams) -> dict[str, Any]:
        running = self._runtime.running
        if not running.identity.tells_apart(ctx):
            raise MCPError(METHOD_NOT_FOUND, "tasks/list needs callers that can be told apart")
        owner = self._owner(ctx)
        with as_protocol_errors():
            tasks, following = await page(running.desk, owner, params.cursor)
        more = {"nextCursor": following} if following else {}
        return {"tasks": [v2025.write_task(task) for task in tasks], **more}

    async def cancel(self, ctx: RequestContext, params: TaskParams) -> dict[str, Any]:
        desk, owner = self._runtime.running.desk, self._owner(ctx)
        with as_protocol_errors():
            try:
                return v2025.write_task(await desk.cancel(params.task_id, owner))
            except AlreadyFinished:
                status = v2025.status(await desk.get(params.task_id, owner))
                raise MCPError(INVALID_PARAMS, f"Cannot cancel task: it is already {status.value}") from None

    def _owner(self, ctx: RequestContext) -> str | None:
        self._acquaintances.saw_use(ctx)
        return self._runtime.running.identity.owner_of(ctx)
