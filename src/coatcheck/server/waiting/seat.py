"""A place to wait for a task outside of the SDK, which whoever serves the request may offer with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import RequestId

from coatcheck.dialects.words import INTERNAL_ERROR
from coatcheck.errors import CoatcheckError
from coatcheck.server.failures import protocol_error
from coatcheck.server.hook import RequestContext
from coatcheck.server.waiting.heartbeat import token_of
from coatcheck.server.waiting.vigil import Stopping
from coatcheck.task import Task

SEAT = "coatcheck.seat"
"""The key under which a request's scope has one."""


class Seat:
    def __init__(self, decline: Callable[[], Awaitable[None]]) -> None:
        """`decline` is awaited if the request is answered in the ordinary way."""
        self.decline = decline
        self.task: Task | None = None
        self.request_id: RequestId | None = None


async def take_seat(ctx: RequestContext, task: Task) -> bool:
    """Leave the waiting to whoever offered a seat, if there is nothing to do but wait. Says whether it was."""
    seat: Seat | None = ctx.request.scope.get(SEAT) if ctx.request is not None else None
    if seat is None:
        return False
    if task.status.is_terminal or task.input_requests or token_of(ctx) is not None:
        await seat.decline()
        return False
    seat.task, seat.request_id = task, ctx.request_id
    return True


def failure(error: BaseException) -> MCPError:
    """Return what to tell someone who waited in vain."""
    if isinstance(error, MCPError):
        return error
    if isinstance(error, Stopping):
        return MCPError(INTERNAL_ERROR, "The server stops; the task is kept, ask for its result again")
    if isinstance(error, CoatcheckError):
        return protocol_error(error)
    return MCPError(INTERNAL_ERROR, "Internal server error")


def written(error: MCPError) -> dict[str, Any]:
    return error.error.model_dump(by_alias=True, mode="json", exclude_none=True)
