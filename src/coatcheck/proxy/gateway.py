"""`Gateway`: an MCP server whose tools, resources and prompts are those of other servers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from mcp.server.mcpserver import MCPServer
from starlette.types import ASGIApp

import coatcheck
from coatcheck.policy import Policy
from coatcheck.proxy.access.terms import Terms
from coatcheck.proxy.config import ServerEntry
from coatcheck.proxy.meta.counter import Counter
from coatcheck.proxy.meta.toolset import add_meta_tools
from coatcheck.proxy.parts import ProxyParts
from coatcheck.proxy.quick.calls import QuickCalls
from coatcheck.proxy.quick.older import QuickOlderCalls
from coatcheck.proxy.sessions.news import News
from coatcheck.proxy.settings import ProxySettings
from coatcheck.server.parts import Parts
from coatcheck.server.polling import PollLimit
from coatcheck.server.settings import Settings
from coatcheck.server.task_server import TaskServer
from coatcheck.server.tasks import Tasks

_FOREVER = timedelta(days=36500)
_MOST_TASKS = 1000


class Gateway(TaskServer):
    """The proxy. `entries` are the servers behind it; `store` is where tasks and events are kept."""

    def __init__(
        self,
        entries: Mapping[str, ServerEntry],
        *,
        name: str = "coatcheck-proxy",
        store: str | None = None,
        settings: ProxySettings = ProxySettings(),
        terms: Terms = Terms(),
        **options: Any,
    ) -> None:
        """Take what `TaskServer` takes, as keywords. `terms`: who may use any of the servers."""
        self._entries, self._settings, self._terms = entries, settings, terms
        # A call that waits for an answer cannot be put aside: it is open at a server.
        policy = Policy(quota=_MOST_TASKS, retention=settings.retention, park_after=_FOREVER)
        super().__init__(
            name,
            version=coatcheck.__version__,
            store=store,
            policy=policy,
            grace=timedelta(seconds=0.1),  # what can go on goes on at the servers, and is found again there
            bind_sessions=True,
            subscriptions=News(),
            fallback_tools=not settings.has_meta_tools,
            **options,
        )
        if settings.has_meta_tools:
            add_meta_tools(self, self._proxy_tasks.counter)
            self._proxy_tasks.cover(has_many_callers=not settings.is_for_one)

    def _tasks(self, store: str | None, **settings: Any) -> Tasks:
        self._proxy_tasks = ProxyTasks(self, self._entries, self._settings, self._terms, store, **settings)
        return self._proxy_tasks


class ProxyTasks(Tasks):
    """Tasks whose tools are elsewhere."""

    _parts: ProxyParts

    def __init__(
        self,
        server: Gateway,
        entries: Mapping[str, ServerEntry],
        settings: ProxySettings,
        terms: Terms,
        store: str | None,
        *,
        subscriptions: News,
        **options: Any,
    ) -> None:
        self._server, self._entries, self._news, self._proxy_settings = server, entries, subscriptions, settings
        self._terms = terms
        super().__init__(store, subscriptions=subscriptions, **options)

    @property
    def counter(self) -> Counter:
        return self._parts.counter

    def cover(self, *, has_many_callers: bool) -> None:
        """Hold the meta tools to what is said of them. `has_many_callers`: they are not all one person."""
        self._parts.guard.cover(self.counter.names, has_many_callers=has_many_callers)

    def call_shortcut(self) -> QuickCalls:
        return QuickCalls(self._parts.tasking)

    def shortened(self, app: ASGIApp, server: MCPServer[Any]) -> ASGIApp:
        return QuickOlderCalls(app, server, self, self._parts.tasking)

    def _made_of(self, settings: Settings, limit: PollLimit | None) -> Parts:
        return ProxyParts(settings, limit, self._server, self._entries, self._news, self._proxy_settings, self._terms)

    @asynccontextmanager
    async def lifespan(self, server: MCPServer[Any]) -> AsyncGenerator[Any]:
        async with super().lifespan(server) as state, self._parts.serving():
            yield state
