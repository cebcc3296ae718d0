"""What a task's body says while the request that made the task is still open in the same process: it goes there."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.connection import allowed_log_levels

from coatcheck.server.calls.caller import MODERN
from coatcheck.server.hook import RequestContext
from coatcheck.server.waiting.heartbeat import Heartbeat
from coatcheck.server.waiting.notifications import notify
from coatcheck.task import Task

_LOG = "notifications/message"


class Live:
    """One open request, before and after its task is made."""

    def __init__(self, lines: dict[str, Live], ctx: RequestContext, heartbeat: Heartbeat) -> None:
        self._lines, self._ctx, self.heartbeat = lines, ctx, heartbeat
        self.request, self.user = ctx.request, auth_context_var.get()
        self.task: Task | None = None
        self._is_open = True
        self.has_round = False
        """Whether the tool asked by multi-round-trip: its result is then a question, for this caller only."""
        self.is_answered = False

    def attach(self, task: Task) -> None:
        """Take what this task's body says, from its first word on."""
        if self._is_open:
            self.task = task
            self._lines[task.id] = self

    def close(self) -> None:
        self._is_open = False
        if self.task:
            self._lines.pop(self.task.id, None)

    def take_round(self) -> bool:
        """Have the tool ask this caller by multi-round-trip, if it can be asked so. Says whether it can."""
        self.has_round = self._ctx.protocol_version in MODERN
        return self.has_round

    async def notify(self, method: str, params: Mapping[str, Any] | None, *, own_stream: bool) -> None:
        if method != _LOG or is_wanted(self._ctx, params):
            await notify(self._ctx, method, params, own_stream=own_stream)


def is_wanted(ctx: RequestContext, params: Mapping[str, Any] | None) -> bool:
    """Whether the caller of a request wants log messages of this level."""
    levels = allowed_log_levels(ctx.protocol_version, ctx.meta)
    return params is not None and params.get("level") in levels


async def notify_of_log(ctx: RequestContext, method: str, params: Mapping[str, Any] | None) -> None:
    if is_wanted(ctx, params):
        await notify(ctx, method, params, own_stream=True)


class Lines:
    """All open requests of this process that made the task they wait for."""

    def __init__(self, heartbeat: float) -> None:
        self._heartbeat = heartbeat
        self._lines: dict[str, Live] = {}

    @contextmanager
    def open(self, ctx: RequestContext) -> Generator[Live]:
        live = Live(self._lines, ctx, Heartbeat(ctx, self._heartbeat))
        try:
            yield live
        finally:
            live.close()

    def take_round(self, task_id: str) -> bool:
        return task_id in self._lines and self._lines[task_id].take_round()

    async def progress(self, task_id: str, done: float, total: float | None, message: str | None) -> None:
        if live := self._lines.get(task_id):
            await live.heartbeat.progress(done, total, message)

    async def notify(self, task_id: str, method: str, params: Mapping[str, Any] | None, *, own_stream: bool) -> None:
        if live := self._lines.get(task_id):
            await live.notify(method, params, own_stream=own_stream)

    def request_of(self, task_id: str) -> Any:
        """Return the HTTP request of the call that made a task, while it is open."""
        live = self._lines.get(task_id)
        return live.request if live else None

    def user_of(self, task_id: str) -> AuthenticatedUser | None:
        live = self._lines.get(task_id)
        return live.user if live else None
