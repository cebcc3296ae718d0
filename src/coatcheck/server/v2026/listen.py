"""Push: `notifications/tasks` on a `subscriptions/listen` stream, from whatever process changes the task.

The SDK's own handler serves the stream and the kinds it knows; beside it, one watcher per task waits on the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import require_client_extension
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from coatcheck.dialects.v2026 import EXTENSION, plain, write_notification
from coatcheck.dialects.words import INVALID_PARAMS
from coatcheck.errors import StoreError, TaskNotFound
from coatcheck.server.failures import as_protocol_errors
from coatcheck.server.runtime import Running
from coatcheck.server.waiting.notifications import notify
from coatcheck.task import Task

logger = logging.getLogger("coatcheck")

METHOD = "subscriptions/listen"
_MOST_TASKS = 1000
_LONG_POLL_SECONDS = 3600.0
_RETRY_SECONDS = 1.0


async def listen(running: Running, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Serve one stream until its client goes or the server stops; in the latter case it is ended as agreed."""
    tasks = await _accepted(running, ctx)
    stream = asyncio.create_task(_serve(running, ctx, call_next, tasks))
    closing = asyncio.create_task(running.streams_end.wait())
    try:
        await asyncio.wait((stream, closing), return_when=asyncio.FIRST_COMPLETED)
        if stream.done():
            return stream.result()
        return types.SubscriptionsListenResult(_meta=_last_words(running, ctx))
    finally:
        closing.cancel()
        stream.cancel()
        await asyncio.gather(stream, return_exceptions=True)


def _last_words(running: Running, ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    """Return what the SDK would have put on the stream's last message."""
    server = running.server
    info = types.Implementation(
        name=server.name,
        title=server.title,
        description=server.description,
        version=server.version,
        website_url=server.website_url,
        icons=server.icons,
    )
    return {
        SUBSCRIPTION_ID_META_KEY: ctx.request_id,
        types.SERVER_INFO_META_KEY: info.model_dump(by_alias=True, mode="json", exclude_none=True),
    }


async def _accepted(running: Running, ctx: ServerRequestContext[Any, Any]) -> Sequence[Task] | None:
    """Return the tasks the caller asked for and may see; None if it did not ask for any."""
    wanted = _task_ids(ctx.params)
    if wanted is None:
        return None
    require_client_extension(ctx, EXTENSION)
    owner, accepted = running.identity.owner_of(ctx), list[Task]()
    with as_protocol_errors():
        for task_id in wanted:
            with suppress(TaskNotFound):
                accepted.append(await running.desk.get(task_id, owner))
    return accepted


def _task_ids(params: Mapping[str, Any] | None) -> Sequence[str] | None:
    notifications = (params or {}).get("notifications")
    wanted: Any = cast("dict[str, Any]", notifications).get("taskIds") if isinstance(notifications, dict) else None
    if wanted is None:
        return None
    if not isinstance(wanted, list) or not all(isinstance(item, str) for item in cast("list[Any]", wanted)):
        raise MCPError(INVALID_PARAMS, "notifications.taskIds must be a list of task ids")
    ids = list(dict.fromkeys(cast("list[str]", wanted)))
    if len(ids) > _MOST_TASKS:
        raise MCPError(INVALID_PARAMS, f"One stream carries at most {_MOST_TASKS} tasks; open another for the rest")
    return ids


async def _serve(
    running: Running, ctx: ServerRequestContext[Any, Any], call_next: CallNext, tasks: Sequence[Task] | None
) -> HandlerResult:
    if tasks is None:
        return await call_next(ctx)
    session = _ListenSession(ctx.session, [task.id for task in tasks])
    watchers = [asyncio.create_task(_watch(running, ctx, session, task)) for task in tasks]
    try:
        return await call_next(replace(ctx, session=cast("ServerSession", session)))
    finally:
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)


async def _watch(running: Running, ctx: ServerRequestContext[Any, Any], session: _ListenSession, task: Task) -> None:
    """Tell of a task as it is, so that nothing since its creation is missed, and then of every change."""
    await session.acknowledged.wait()
    meta = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
    told: datetime | None = None
    with suppress(TaskNotFound):  # its lifetime is over, and so is the news
        while told is None or not task.status.is_terminal:
            task = await _fresh(running, task, has_been_told=told is not None)
            if task.updated_at != told:
                await notify(ctx, "notifications/tasks", plain(write_notification(task, meta)), own_stream=True)
                told = task.updated_at


async def _fresh(running: Running, task: Task, *, has_been_told: bool) -> Task:
    """Return the task as it is, or once it has changed. While the store is out of order, keep trying."""
    while True:
        try:
            if has_been_told:
                return await running.engine.wait(task, _LONG_POLL_SECONDS)
            return await running.engine.get(task.id, task.owner)
        except StoreError as error:
            logger.error("Cannot tell of task %s just now: %s", task.id, error)
            await asyncio.sleep(_RETRY_SECONDS)


class _ListenSession:
    """The SDK's session, but that the acknowledgement also names the tasks."""

    def __init__(self, session: ServerSession, task_ids: list[str]) -> None:
        self._session, self._task_ids = session, task_ids
        self.acknowledged = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def send_notification(
        self, notification: types.ServerNotification, related_request_id: types.RequestId | None = None
    ) -> None:
        if isinstance(notification, types.SubscriptionsAcknowledgedNotification):
            notification = self._widened(notification)
            await self._session.send_notification(notification, related_request_id)
            self.acknowledged.set()
        else:
            await self._session.send_notification(notification, related_request_id)

    def _widened(
        self, notification: types.SubscriptionsAcknowledgedNotification
    ) -> types.SubscriptionsAcknowledgedNotification:
        given = notification.model_dump(by_alias=True, mode="json", exclude_none=True)
        given["params"]["notifications"]["taskIds"] = self._task_ids
        return types.SubscriptionsAcknowledgedNotification.model_validate(given)
