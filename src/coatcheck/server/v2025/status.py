"""`notifications/tasks/status` and `notifications/progress` for tasks that were made over 2025-11-25."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress

import anyio
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER

from coatcheck.dialects import v2025
from coatcheck.engine import Engine
from coatcheck.errors import StoreError, TaskNotFound
from coatcheck.server.hook import RequestContext
from coatcheck.server.waiting.heartbeat import above, token_of
from coatcheck.server.waiting.notifications import notify
from coatcheck.task import Task

_STATUS = "notifications/tasks/status"
_LONG_POLL_SECONDS = 3600.0
_RETRY_SECONDS = 1.0


class StatusNews:
    """Tells the client that made a task how it goes, on the standing stream, as long as both are there."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._watchers: dict[asyncio.Task[None], str | None] = {}

    async def begin(self, ctx: RequestContext, task: Task) -> None:
        """Tell of a new task on the stream that is about to carry its answer, and watch it from now on."""
        if ctx.session.client_params is None:  # no session, so nobody is there once the request is answered
            return
        await notify(ctx, _STATUS, v2025.write_seen(task), own_stream=ctx.session.can_send_request)
        watcher = asyncio.create_task(self._watch(ctx, task))
        self._watchers[watcher] = ctx.request.headers.get(MCP_SESSION_ID_HEADER) if ctx.request is not None else None
        watcher.add_done_callback(self._watchers.pop)

    def session_ended(self, session: str) -> None:
        """Watch no longer for a client that has said goodbye."""
        for watcher, its_session in self._watchers.items():
            if its_session == session:
                watcher.cancel()

    def stop(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()

    async def _watch(self, ctx: RequestContext, task: Task) -> None:
        token, told, value = token_of(ctx), task.progress, -math.inf
        # The task may outlive its client, or the other way round.
        with suppress(TaskNotFound, anyio.ClosedResourceError, anyio.BrokenResourceError):
            while not task.status.is_terminal:
                task = await self._changed(task)
                is_news = task.progress != told and not task.status.is_terminal
                if token is not None and task.progress is not None and is_news:
                    told, value = task.progress, above(value, task.progress.done)
                    await self._tell_progress(ctx, task, token, value)
                await notify(ctx, _STATUS, v2025.write_seen(task), own_stream=False)

    async def _changed(self, task: Task) -> Task:
        while True:
            try:
                fresh = await self._engine.wait(task, _LONG_POLL_SECONDS)
            except StoreError:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if fresh.updated_at > task.updated_at:
                return fresh

    async def _tell_progress(self, ctx: RequestContext, task: Task, token: str | int, value: float) -> None:
        total = task.progress.total if task.progress else None
        params = {
            "progressToken": token,
            "progress": value,
            **({} if total is None else {"total": total}),
            **({} if task.status_message is None else {"message": task.status_message}),
            "_meta": v2025.related(task.id),
        }
        await notify(ctx, "notifications/progress", params, own_stream=False)
