"""`tasks/get`, `tasks/update` and `tasks/cancel`, as 2026-07-28 has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.extension import MethodBinding
from mcp.server.mcpserver import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import RequestParams
from mcp_types.jsonrpc import HEADER_MISMATCH
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from coatcheck.dialects.v2026 import EXTENSION, plain, write_task
from coatcheck.errors import AlreadyFinished
from coatcheck.server.failures import as_protocol_errors
from coatcheck.server.identity import owner_of
from coatcheck.server.polling import PollLimit
from coatcheck.server.runtime import Runtime
from coatcheck.task import Status, Task

RequestContext = ServerRequestContext[Any, Any]
VERSIONS = frozenset(MODERN_PROTOCOL_VERSIONS)
_YOUTH = timedelta(milliseconds=100)


class TaskParams(RequestParams):
    task_id: str


class UpdateParams(TaskParams):
    input_responses: dict[str, Any]


class Methods:
    def __init__(self, runtime: Runtime, polls: PollLimit | None, needs_name: Callable[[], bool]) -> None:
        """`needs_name`: whether a request over HTTP must have a Mcp-Name header; a wrong one is always refused."""
        self._runtime, self._polls, self._needs_name = runtime, polls, needs_name

    @property
    def counts_polls(self) -> bool:
        return self._polls is not None

    def bindings(self) -> Sequence[MethodBinding]:
        return (
            MethodBinding("tasks/get", TaskParams, self.get, VERSIONS),
            MethodBinding("tasks/update", UpdateParams, self.update, VERSIONS),
            MethodBinding("tasks/cancel", TaskParams, self.cancel, VERSIONS),
        )

    async def get(self, ctx: RequestContext, params: TaskParams) -> dict[str, Any]:
        self._check(ctx, params.task_id)
        with as_protocol_errors():
            task = await self.poll(params.task_id, owner_of(ctx))
        return plain(write_task(task))

    async def poll(self, task_id: str, owner: str | None) -> Task:
        """Return the task as it is; one that has only just begun gets a moment, as most work is quick.

        Raises:
            TaskNotFound: There is none, for this owner.
            MCPError: It was polled too often.
        """
        engine = self._runtime.running.engine
        task = await engine.get(task_id, owner)
        if self._polls:
            self._polls.check(task)
        if task.status is Status.WORKING:
            youth = (_YOUTH - (engine.clock() - task.created_at)).total_seconds()
            if 0 < youth <= _YOUTH.total_seconds():
                return await engine.settled(task, youth)
        return task

    async def update(self, ctx: RequestContext, params: UpdateParams) -> dict[str, Any]:
        self._check(ctx, params.task_id)
        with as_protocol_errors(), suppress(AlreadyFinished):  # then none of its keys is outstanding
            await self._runtime.running.engine.answer(params.task_id, owner_of(ctx), params.input_responses)
        return {}

    async def cancel(self, ctx: RequestContext, params: TaskParams) -> dict[str, Any]:
        self._check(ctx, params.task_id)
        with as_protocol_errors(), suppress(AlreadyFinished):  # asking twice is no mistake
            await self._runtime.running.engine.cancel(params.task_id, owner_of(ctx), "Cancelled by its caller")
        return {}

    def _check(self, ctx: RequestContext, task_id: str) -> None:
        require_client_extension(ctx, EXTENSION)
        if ctx.request is None:
            return
        given = ctx.request.headers.get(MCP_NAME_HEADER)
        if given is None and not self._needs_name():
            return
        if _decoded(given) != task_id:
            raise MCPError(HEADER_MISMATCH, f"The {MCP_NAME_HEADER} header must repeat params.taskId")


def _decoded(header: str | None) -> str | None:
    try:
        return decode_header_value(header)
    except ValueError:
        return None
