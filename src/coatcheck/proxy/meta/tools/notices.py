"""The tools for logs, notifications and timers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from coatcheck.client.wire import Json
from coatcheck.errors import InvalidArgument
from coatcheck.proxy.activity.timers import Timer
from coatcheck.proxy.meta.counter import Caller, Counter, Ctx
from coatcheck.proxy.meta.refusals import TIMER_NOT_FOUND, ToolRefusal

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
Limit = Annotated[int, Field(ge=1, le=1000, description="How many at most, the latest")]
TimerId = Annotated[str, Field(description="The timer's id, as set_timer gave it")]


class NoticeTools:
    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    async def get_notifications(self, ctx: Ctx, server: str | None = None, limit: Limit = 100) -> Json:
        """Show what servers have told of their own accord, newest last."""
        caller = await self._counter.caller(ctx)
        return {"notifications": [each.to_json() for each in caller.activity.notifications.get(server, limit)]}

    async def get_logs(
        self,
        ctx: Ctx,
        server: str | None = None,
        level: Annotated[LogLevel | None, Field(description="This level and more severe ones")] = None,
        limit: Limit = 100,
    ) -> Json:
        """Show what servers have logged, and what their processes wrote to stderr, newest last."""
        caller = await self._counter.caller(ctx)
        return {"logs": [each.to_json() for each in caller.activity.logs.get(server, level, limit)]}

    async def set_timer(
        self,
        ctx: Ctx,
        duration_ms: Annotated[int, Field(gt=0, description="When it goes off; 24 hours at most")],
        message: Annotated[str | None, Field(description="What to be reminded of")] = None,
        repeat: Annotated[bool, Field(description="Whether it goes off again and again")] = False,
    ) -> Json:
        """Set a timer, which await_activity will tell of."""
        caller = await self._counter.caller(ctx)
        return {"timer": caller.activity.timers.set(duration_ms / 1000, message, repeat).to_json()}

    async def list_timers(self, ctx: Ctx) -> Json:
        """List the timers that are set."""
        caller = await self._counter.caller(ctx)
        return {"timers": [timer.to_json() for timer in caller.activity.timers.list()]}

    async def get_timer(self, ctx: Ctx, timer_id: TimerId) -> Json:
        """Look at a timer."""
        caller = await self._counter.caller(ctx)
        return {"timer": _found(caller, timer_id).to_json()}

    async def delete_timer(self, ctx: Ctx, timer_id: TimerId) -> Json:
        """Delete a timer before it goes off."""
        caller = await self._counter.caller(ctx)
        _found(caller, timer_id)
        caller.activity.timers.delete(timer_id)
        return {"success": True, "message": f"Timer {timer_id} was deleted."}


def _found(caller: Caller, timer_id: str) -> Timer:
    try:
        return caller.activity.timers.get(timer_id)
    except InvalidArgument as error:
        raise ToolRefusal(TIMER_NOT_FOUND, str(error)) from error
