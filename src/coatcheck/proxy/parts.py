"""The parts of the proxy, put together."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.context import CallNext, HandlerResult
from mcp.server.mcpserver import MCPServer
from mcp_types import ClientCapabilities

from coatcheck.client.wire import Json
from coatcheck.proxy.access.guard import Guard
from coatcheck.proxy.access.terms import Terms
from coatcheck.proxy.config import ServerEntry
from coatcheck.proxy.meta.activity import Activity
from coatcheck.proxy.meta.counter import Counter
from coatcheck.proxy.naming import Naming
from coatcheck.proxy.servers import Servers
from coatcheck.proxy.sessions.news import News
from coatcheck.proxy.sessions.session import Session
from coatcheck.proxy.sessions.sessions import Sessions, mirrored
from coatcheck.proxy.settings import ProxySettings
from coatcheck.proxy.tasking import Tasking
from coatcheck.proxy.transparent.calls import Calls
from coatcheck.proxy.transparent.requests import Requests
from coatcheck.proxy.work import Errand, Work, errand_of
from coatcheck.server.hook import RequestContext
from coatcheck.server.parts import Parts
from coatcheck.server.policy import TaskPolicy
from coatcheck.server.polling import PollLimit
from coatcheck.server.settings import Settings
from coatcheck.server.v2026.listen import METHOD as LISTEN
from coatcheck.task import Position

_CAPABILITIES: Json = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}


class _ForServers(dict[str, TaskPolicy]):
    """Every tool of a server may be a task, whether it has been heard of yet or not."""

    def __init__(self, policy: TaskPolicy, naming: Naming, servers: Servers) -> None:
        super().__init__()
        self._policy, self._naming, self._servers = policy, naming, servers

    def get(self, name: str, default: Any = None) -> Any:
        return default if self._naming.find(name, self._servers) is None else self._policy

    def __bool__(self) -> bool:
        return True


class ProxyParts(Parts):
    def __init__(
        self,
        settings: Settings,
        limit: PollLimit | None,
        server: MCPServer[Any],
        entries: Mapping[str, ServerEntry],
        news: News,
        proxy: ProxySettings,
        terms: Terms,
    ) -> None:
        """`terms`: who may use any of the servers, and the proxy's own tools."""
        self._server, self._proxy, self._news = server, proxy, news
        self._guests = 0
        naming, self.servers = Naming(prefixes=proxy.prefixes), Servers(entries)
        policy = TaskPolicy("optional", promote_after=proxy.promote_after, resumable=True)
        super().__init__(settings, limit, _ForServers(policy, naming, self.servers))
        self.sessions = Sessions(
            self.servers,
            naming,
            news,
            self._owner,
            self._witness if proxy.has_meta_tools else None,
            idle_seconds=proxy.idle.total_seconds(),
        )
        work = Work(lambda: self.runtime.running, self._session)
        self.guard = Guard(self.gate, self.servers, naming, terms)
        self.tasking = Tasking(self, self.sessions, self.servers, naming, work, policy, self.guard, self._info)
        self.counter = Counter(self.tasking, self.servers, proxy)
        naming.own = self.ticket_tools.names if self.ticket_tools else self.counter.names
        self.requests = Requests(self.sessions, self.servers, naming, self.guard, self._info)
        self._calls = Calls(self.tasking)
        self.steps |= {
            **self.requests.steps(),
            "initialize": self._initialize,
            "server/discover": self._discover,
            "tools/list": self._list_tools,
            "tools/call": self._call,
            LISTEN: self._listen_to_all,
        }

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Take up what an earlier process left, and in the end close all connections."""
        if self._guests == 0:
            await self._take_up()
        self._guests += 1
        try:
            yield
        finally:
            self._guests -= 1
            if self._guests == 0:
                await self.sessions.close()

    async def _take_up(self) -> None:
        """Have unfinished tasks of our servers carried out; those of others are left to others."""
        after: Position | None = None
        engine = self.runtime.running.engine
        while page := await engine.list_all(after=after):
            for task in page:
                errand = None if task.status.is_terminal else errand_of(task)
                if errand and errand.server in self.servers:
                    self.tasking.know(task.call.tool)
            after = page[-1].position

    async def _witness(self, key: str) -> Activity:
        return await Activity.restored(key, self.runtime.running.engine, self._proxy)

    def _owner(self, ctx: RequestContext) -> str | None:
        return self.runtime.running.identity.owner_of(ctx)

    async def _session(self, errand: Errand, capabilities: Mapping[str, Any]) -> Session:
        declared = mirrored(ClientCapabilities.model_validate(capabilities))
        return await self.sessions.get(errand.session, declared, is_older=errand.is_older)

    def _info(self) -> Json:
        server = self._server
        return {"name": server.name, "version": server.version or ""}

    # What clients are told

    async def _initialize(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        return _with_capabilities(await self.told.initialize(ctx, call_next))

    async def _discover(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        return _with_capabilities(await self.told.discover(ctx, call_next))

    async def _call(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        result = await self._calls.call(ctx, call_next)
        name = (ctx.params or {}).get("name")
        is_ours = self._proxy.has_meta_tools and isinstance(name, str) and self.tasking.find(name) is None
        if is_ours and isinstance(result, dict) and result.get("isError"):
            return await self.counter.refused_by_sdk(ctx, result)
        return result

    async def _listen_to_all(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        async with self.requests.subscribed(ctx) as ctx:
            with self._news.listening(self._owner(ctx)):
                return await self._listen(ctx, call_next)

    async def _list_tools(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        async def all_tools(ctx: RequestContext) -> HandlerResult:
            own = await self.gate.list(ctx, call_next)
            return own if self._proxy.has_meta_tools else await self.requests.with_tools(ctx, own)

        return await self.told.list_tools(ctx, all_tools)


def _with_capabilities(result: HandlerResult) -> HandlerResult:
    if isinstance(result, dict):
        result["capabilities"] = {**result["capabilities"], **_CAPABILITIES}
    return result
