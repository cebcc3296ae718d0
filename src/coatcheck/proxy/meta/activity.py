"""All that happens in one session, kept for the meta tools."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from mcp.shared.exceptions import MCPError

from coatcheck.client.wire import Json, Params
from coatcheck.dialects.words import METHOD_NOT_FOUND
from coatcheck.engine import Engine
from coatcheck.errors import TaskNotFound
from coatcheck.proxy.activity.diary import Diary
from coatcheck.proxy.activity.events import Events, EventType
from coatcheck.proxy.activity.logs import Logs, Notifications
from coatcheck.proxy.activity.timers import Timer, Timers
from coatcheck.proxy.config import ServerEntry
from coatcheck.proxy.meta.pending import TABLES, PendingRequest, PendingRequests
from coatcheck.proxy.sessions.witness import About
from coatcheck.proxy.settings import ProxySettings
from coatcheck.proxy.states import task_status
from coatcheck.proxy.upstreams.link import State
from coatcheck.proxy.upstreams.upstream import Upstream
from coatcheck.proxy.work import errand_of
from coatcheck.task import Task

_ARRIVED = {
    "elicitation/create": EventType.ELICITATION_REQUEST,
    "sampling/createMessage": EventType.SAMPLING_REQUEST,
}
_EXPIRED = {
    "elicitation/create": EventType.ELICITATION_EXPIRED,
    "sampling/createMessage": EventType.SAMPLING_EXPIRED,
}
_ENDED = {
    "completed": EventType.TASK_COMPLETED,
    "failed": EventType.TASK_FAILED,
    "cancelled": EventType.TASK_CANCELLED,
    "expired": EventType.TASK_EXPIRED,
}
_NO_NEWS = ("notifications/progress", "notifications/subscriptions/acknowledged")


class Activity:
    def __init__(self, events: Events, engine: Engine, settings: ProxySettings) -> None:
        self.events, self._engine = events, engine
        self.logs, self.notifications = Logs(), Notifications()
        self.timers = Timers(self._timed)
        self.pending = PendingRequests(settings.question_timeout.total_seconds(), self._arrived, self._expired)
        self.under_way = 0
        """How many calls may yet become tasks."""
        self._watched: dict[str, asyncio.Task[None]] = {}

    @classmethod
    async def restored(cls, name: str, engine: Engine, settings: ProxySettings) -> Activity:
        """Return a session's activity, with the events an earlier process left."""
        return cls(await Events.restored(Diary(engine.store, f"proxy:{name}")), engine, settings)

    async def close(self) -> None:
        self.timers.close()
        self.pending.close()
        for watch in self._watched.values():
            watch.cancel()
        await asyncio.gather(*self._watched.values(), return_exceptions=True)
        await self.events.close()

    # What servers ask and tell

    async def ask(self, server: str, method: str, params: Json, *, about: About = None) -> Json:
        if method not in TABLES:
            raise MCPError(METHOD_NOT_FOUND, f"The client cannot be asked this just now ({method})")
        return await self.pending.hold(server, method, params, about)

    def notified(self, server: str, method: str, params: Params) -> None:
        if method == "notifications/message":
            said = params or {}
            self.logs.add(server, str(said.get("level", "info")), said.get("data"), said.get("logger"))
        elif method not in _NO_NEWS:
            self.notifications.add(server, method, dict(params or {}))
            self.events.add(EventType.NOTIFICATION, server, method=method, params=dict(params or {}))

    def said(self, server: str, line: str) -> None:
        self.logs.add(server, "info", line, source="stderr")

    def changed(self, upstream: Upstream, before: State, after: State) -> None:
        name = upstream.name
        if after is State.CONNECTED:
            kind = EventType.SERVER_RECONNECTED if upstream.has_connected else EventType.SERVER_CONNECTED
            self.events.add(kind, name)
        elif before is State.CONNECTED:
            self.pending.lost(name)
            self.events.add(EventType.SERVER_DISCONNECTED, name, reason=upstream.link.error or "disconnected")

    def server_added(self, entry: ServerEntry) -> None:
        self.events.add(EventType.SERVER_ADDED, entry.name, **entry.describe())

    def server_removed(self, name: str) -> None:
        self.pending.lost(name)
        self.events.add(EventType.SERVER_REMOVED, name)

    # Tasks

    def created(self, task: Task) -> None:
        errand = errand_of(task)
        server, tool = (errand.server, errand.tool) if errand else (None, task.call.tool)
        self.events.add(EventType.TASK_CREATED, server, taskId=task.id, toolName=tool)
        self.watch(task)

    @property
    def unfinished(self) -> int:
        """How many tasks of the session have not ended."""
        return len(self._watched)

    def watch(self, task: Task) -> None:
        """Tell how a task ends."""
        if task.id not in self._watched:
            watch = self._watched[task.id] = asyncio.create_task(self._watch(task))
            watch.add_done_callback(lambda _: self._watched.pop(task.id, None))

    async def _watch(self, task: Task) -> None:
        errand = errand_of(task)
        server = errand.server if errand else None
        data: Json = {"taskId": task.id, "toolName": errand.tool if errand else task.call.tool}
        with suppress(TaskNotFound):
            while not task.status.is_terminal:
                task = await self._engine.finished(task)
            if task.failure:
                data["error"] = task.failure.message
            self.events.add(_ENDED[task_status(task)], server, **data)

    # Timers and requests

    def _timed(self, timer: Timer) -> None:
        self.events.add(EventType.TIMER_EXPIRED, None, **timer.to_json())

    def _arrived(self, request: PendingRequest) -> None:
        self.events.add(_ARRIVED[request.method], request.server, **request.brief())

    def _expired(self, request: PendingRequest) -> None:
        self.events.add(_EXPIRED[request.method], request.server, **request.brief())
