"""`tasks/get`, `tasks/update` and `tasks/cancel`, as 2026-07-28 has them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mcp.server.mcpserver import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.jsonrpc import HEADER_MISMATCH

from coatcheck.dialects.v2026 import EXTENSION, plain, write_task
from coatcheck.errors import AlreadyFinished
from coatcheck.server.failures import as_protocol_errors
from coatcheck.server.hook import RequestContext
from coatcheck.server.params import TaskParams, UpdateParams
from coatcheck.server.polling import Polls
from coatcheck.server.runtime import Runtime


class Methods:
    def __init__(self, runtime: Runtime, polls: Polls, needs_name: Callable[[], bool]) -> None:
        """`needs_name`: whether a request over HTTP must have a Mcp-Name header; a wrong one is always refused."""
        self._runtime, self._polls, self._needs_name = runtime, polls, needs_name

    async def get(self, ctx: RequestContext, params: TaskParams) -> dict[str, Any]:
        self._check(ctx, params.task_id)
        with as_protocol_errors():
            task = await self._polls.poll(params.task_id, self._owner(ctx))
        return plain(write_task(task))

    async def update(self, ctx: RequestContext, params: UpdateParams) -> dict[str, Any]:
        self._check(ctx, params.task_id)
        with as_protocol_errors(), suppress(AlreadyFinished):  # then none of its keys is outstanding
            await self._runtime.running.desk.answer(params.task_id, self._owner(ctx), params.input_responses)
        return {}

    async def cancel(self, ctx: RequestContext, params: TaskParams) -> dict[str, Any]:
        self._check(ctx, params.task_id)
        with as_protocol_errors(), suppress(AlreadyFinished):  # asking twice is no mistake
            await self._runtime.running.desk.cancel(params.task_id, self._owner(ctx))
        return {}

    def _owner(self, ctx: RequestContext) -> str | None:
        return self._runtime.running.identity.owner_of(ctx)

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
