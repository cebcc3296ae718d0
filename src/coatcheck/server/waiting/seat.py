"""A place to wait for a task outside of the SDK, which whoever serves the request may offer with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mcp_types import RequestId

from coatcheck.server.hook import RequestContext
from coatcheck.server.waiting.heartbeat import token_of
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
