"""The engine and the worker behind a server: one of each per process, alive as long as anyone is being served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import SubscriptionBus

from coatcheck.engine import Engine
from coatcheck.errors import AlreadyFinished, TaskNotFound
from coatcheck.hosting import check_host
from coatcheck.policy import duration
from coatcheck.server.access.audit import Audit
from coatcheck.server.access.desk import Desk
from coatcheck.server.identity import Identity
from coatcheck.server.mounting import Mounts
from coatcheck.server.settings import Settings
from coatcheck.server.v2025.status import StatusNews
from coatcheck.server.waiting.vigil import Vigils
from coatcheck.task import Task
from coatcheck.tool import Tool
from coatcheck.wiring import Launcher, check_docket, new_launcher, new_worker, open_engine
from coatcheck.worker import TaskWorker

_HOME = "coatcheck.server.detached:home"
"""What opens a server in the process of a detached task."""


@dataclass(frozen=True, slots=True)
class Running:
    """What a request needs while the server runs."""

    server: MCPServer[Any]
    state: Any
    subscriptions: SubscriptionBus | None
    engine: Engine
    desk: Desk
    """The engine, for callers."""
    worker: TaskWorker | None
    identity: Identity
    vigils: Vigils
    news: StatusNews
    has_ticket_tools: bool
    loop: asyncio.AbstractEventLoop
    streams_end: asyncio.Event
    """Set when the server begins to stop, for those who hold a stream open."""
    closing: asyncio.Event

    def abandon(self, task: Task) -> None:
        """Cancel a task whose caller has gone, and of which nobody else knows or cares.

        With a key, whoever has it can call again.
        """
        if task.idempotency_key is None:
            self.vigils.errands.run(self._abandon(task))

    async def _abandon(self, task: Task) -> None:
        with suppress(AlreadyFinished, TaskNotFound):
            await self.engine.cancel(task.id, task.owner, "Its caller hung up")

    def end_streams(self) -> None:
        self.loop.call_soon_threadsafe(self.end_streams_now)

    def end_streams_now(self) -> None:
        self.streams_end.set()
        self.vigils.stop()
        self.news.stop()


class Runtime:
    """Started by the first who comes, stopped by the last who leaves: a server may be served several times at once.

    It lives in a task of its own, because whoever leaves last need not be the one who came first.
    """

    def __init__(self, settings: Settings, tools: Callable[[], list[Tool]], mounts: Mounts) -> None:
        self._settings, self._tools, self._mounts = settings, tools, mounts
        self._guests = 0
        self._host: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._running: Running | None = None
        self._launch: Callable[[], Launcher] | None = None

    @property
    def running(self) -> Running:
        if self._running is None:
            raise RuntimeError(
                "Tasks are not running: give the server their lifespan, as in "
                "MCPServer(..., extensions=[tasks], lifespan=tasks.lifespan)."
            )
        return self._running

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def check(self, server: MCPServer[Any]) -> tuple[int, str]:
        """Return how many tasks run here at once, and where they are kept.

        Raises:
            InvalidArgument: A setting cannot be used, or not here.
            StoreUnavailable: Something is not installed.
        """
        settings = self._settings
        slots, url, docket = settings.slots(), settings.url(server.name), settings.courier()
        check_host(slots, url, strict=settings.strict)
        if docket:
            check_docket(docket)
        self._launch = cache(partial(new_launcher, server, server.name, store=url, home=_HOME))
        if slots:
            self._tools()  # for those that cannot be detached
        return slots, url

    def detach(self, tool: Tool) -> Tool:
        """Return a tool as one that is run in processes of their own.

        Raises:
            InvalidArgument: The store cannot be shared, or another process could not find the server.
        """
        assert self._launch, "only a server that runs has a worker to give tools to"
        return self._launch().detach(tool)

    @asynccontextmanager
    async def serve(self, server: MCPServer[Any]) -> AsyncGenerator[Any]:
        """Keep engine and worker running meanwhile. Yields the state of the author's lifespan."""
        while self._leaving and not self._leaving.done():
            await asyncio.wait((self._leaving,))  # what a lifespan has opened is closed before it is opened anew
        self._guests += 1
        try:
            if self._host is None:
                self._ready = asyncio.get_running_loop().create_future()
                self._host = asyncio.create_task(self._live(server, self._ready))
            running: Running = await asyncio.shield(self._ready)
            yield running.state
        finally:
            self._guests -= 1
            if self._guests == 0:
                await self._leave()

    async def _leave(self) -> None:
        self._leaving, self._host = self._host, None
        if self._running:
            self._running.end_streams_now()
            self._running.closing.set()
        elif self._leaving:
            self._leaving.cancel()  # nobody waits any more for what is still being started
        if self._leaving:
            await asyncio.gather(self._leaving, return_exceptions=True)

    async def _live(self, server: MCPServer[Any], ready: asyncio.Future[Running]) -> None:
        try:
            async with AsyncExitStack() as stack:
                running = await self._start(server, stack)
                self._running = running
                ready.set_result(running)
                await running.closing.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)
            ready.exception()  # looked at in any case, or asyncio complains where nobody waits any more
        finally:
            self._running = None

    async def _start(self, server: MCPServer[Any], stack: AsyncExitStack) -> Running:
        settings = self._settings
        slots, url = self.check(server)
        state: Any = {}
        if settings.lifespan:
            state = await stack.enter_async_context(settings.lifespan(server))
        await stack.enter_async_context(self._mounts.living(state))
        engine = await stack.enter_async_context(open_engine(url, policy=settings.policy, key=settings.key))
        desk = Desk(engine, Audit(is_on=settings.audits()))
        vigils = Vigils(desk, duration("heartbeat", settings.heartbeat).total_seconds())
        stack.push_async_callback(vigils.errands.settle)
        for jobs in (*settings.jobs, *self._mounts.jobs()) if slots else ():
            await stack.enter_async_context(jobs.looked_after(engine))
        worker = await stack.enter_async_context(
            new_worker(engine, self._tools, slots=slots, grace=settings.grace, docket=settings.courier())
        )
        return Running(
            server=server,
            state=state,
            subscriptions=settings.subscriptions,
            engine=engine,
            desk=desk,
            worker=worker,
            identity=Identity(binds_sessions=settings.binds_sessions),
            vigils=vigils,
            news=StatusNews(engine),
            has_ticket_tools=settings.has_ticket_tools,
            loop=asyncio.get_running_loop(),
            streams_end=asyncio.Event(),
            closing=asyncio.Event(),
        )
