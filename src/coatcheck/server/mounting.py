"""Servers made of servers: what one offers is offered by another under a prefix, with its own middleware and state."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.subscriptions import SubscriptionBus
from mcp.shared.subscriptions import ResourceUpdated, ServerEvent
from mcp_types import InputResponseRequestParams

from coatcheck.errors import InvalidArgument
from coatcheck.executors import Jobs
from coatcheck.server.hook import RequestContext, Step, authors_middleware, chained
from coatcheck.server.settings import Settings
from coatcheck.server.translating import Translator

REACHED = {"tools/call": ("tool", "name"), "prompts/get": ("prompt", "name"), "resources/read": ("resource", "uri")}
"""By method: what is asked for, and which parameter names it."""


@dataclass(frozen=True)
class Guest:
    """What a server has of one that is mounted in it."""

    server: MCPServer[Any]
    settings: Settings
    mounts: Mounts

    @property
    def needs_a_start(self) -> bool:
        return bool(self.settings.lifespan or self.settings.jobs or self.mounts.need_a_start)


@dataclass(frozen=True, eq=False)
class Life:
    """A time for which a host runs: the state of its own lifespan, and of the guest's."""

    hosts: Any
    state: Any


@dataclass
class Mount:
    """One server in another, as `prefix`."""

    guest: Guest
    prefix: str
    bus: SubscriptionBus | None = None
    """The host's, for what the guest's tools tell of."""
    lives: list[Life] = field(default_factory=list["Life"])
    """The times that the host runs just now: it may, by itself and as a guest of others."""

    @property
    def state(self) -> Any:
        return self.lives[-1].state if self.lives else {}

    def state_in(self, hosts: Any) -> Any:
        """Return the state of the guest's lifespan that goes with a state of the host's."""
        return next((life.state for life in self.lives if life.hosts is hosts), self.state)

    @asynccontextmanager
    async def living(self, hosts: Any) -> AsyncGenerator[None]:
        """Keep what the guest's own lifespan opens, and that of its guests."""
        async with AsyncExitStack() as stack:
            lifespan, state = self.guest.settings.lifespan, cast("Any", {})
            if lifespan:
                state = await stack.enter_async_context(lifespan(self.guest.server))
            life = Life(hosts, state)
            self.lives.append(life)
            stack.callback(self.lives.remove, life)
            await stack.enter_async_context(self.guest.mounts.living(state))
            yield

    def name(self, kind: str, name: str) -> str:
        """Return how the host calls what the guest calls `name`."""
        return f"{self.prefix}{'+' if kind == 'resource' else '_'}{name}"

    def own_name(self, kind: str, name: str) -> str | None:
        """Return how the guest calls what the host calls `name`; None: it is not the guest's."""
        start = self.name(kind, "")
        return name.removeprefix(start) if name.startswith(start) else None

    def __post_init__(self) -> None:
        self.translator = Translator(self._context)
        """What the guest's functions are called by at the host: their `Context` is that of the guest."""

    def _context(self, given: Context[Any, Any]) -> Context[Any, Any]:
        try:
            request = given.request_context
        except ValueError:  # a call that nobody sent
            return Context(mcp_server=self.guest.server)
        request = replace(request, lifespan_context=self.state_in(request.lifespan_context))
        back = InputResponseRequestParams.model_construct(
            input_responses=given.input_responses, request_state=given.request_state
        )
        bus = News(self, self.bus) if self.bus else None
        return Context(request_context=request, mcp_server=self.guest.server, input_params=back, subscriptions=bus)


@dataclass(frozen=True, slots=True)
class News:
    """What a guest tells of changes, for those who listen to the host: of resources by the names they have there."""

    mount: Mount
    bus: SubscriptionBus

    async def publish(self, event: ServerEvent) -> None:
        if isinstance(event, ResourceUpdated):
            event = ResourceUpdated(uri=self.mount.name("resource", event.uri))
        await self.bus.publish(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        return self.bus.subscribe(listener)


class Mounts:
    """The servers that are mounted in one."""

    def __init__(self) -> None:
        self.all: list[Mount] = []
        self.names: dict[tuple[str, str], Mount] = {}
        """By kind and name at the host: tools, prompts, resources and templates."""

    def add(self, guest: Guest, prefix: str, bus: SubscriptionBus | None) -> Mount:
        """Mount a server.

        Raises:
            InvalidArgument: The prefix is taken, or could not be told from the names behind it.
        """
        if not prefix.isidentifier():
            raise InvalidArgument(f"A prefix is a name of letters, digits and underscores, but it is {prefix!r}.")
        if any(mount.prefix == prefix for mount in self.all):
            raise InvalidArgument(f"There is a server at {prefix!r} already; give this one another prefix.")
        mount = Mount(guest, prefix, bus)
        self.all.append(mount)
        return mount

    def have(self, server: MCPServer[Any]) -> bool:
        """Whether a server is mounted here, or in one that is."""
        return any(mount.guest.server is server or mount.guest.mounts.have(server) for mount in self.all)

    @property
    def need_a_start(self) -> bool:
        """Whether there is something to do for them before the host serves anyone."""
        return any(mount.guest.needs_a_start for mount in self.all)

    @asynccontextmanager
    async def living(self, hosts: Any) -> AsyncGenerator[None]:
        """Keep what the guests' own lifespans open; `hosts` is the state of the host's."""
        async with AsyncExitStack() as stack:
            for mount in self.all:
                await stack.enter_async_context(mount.living(hosts))
            yield

    def jobs(self) -> list[Jobs]:
        """Return the jobs that other engines do for tasks of the guests."""
        return [job for mount in self.all for job in (*mount.guest.settings.jobs, *mount.guest.mounts.jobs())]

    async def through(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Take a request through the middleware of the server that is asked in the end, and of those in between."""
        kind, parameter = REACHED[ctx.method]
        params: Mapping[str, Any] = ctx.params or {}
        name = params.get(parameter)
        mount = self._mount_of(kind, name) if isinstance(name, str) else None
        own = mount.own_name(kind, str(name)) if mount else None
        if mount is None or own is None:
            return await call_next(ctx)

        async def back(ctx_: RequestContext) -> HandlerResult:
            """Under the name the host knows, whatever the middleware has changed besides."""
            named = {**(ctx_.params or {}), parameter: name}
            return await call_next(replace(ctx_, params=named, lifespan_context=ctx.lifespan_context))

        async def further(ctx_: RequestContext) -> HandlerResult:
            return await mount.guest.mounts.through(ctx_, back)

        handler = chained(authors_middleware(mount.guest.server), further)
        state = mount.state_in(ctx.lifespan_context)
        return await handler(replace(ctx, params={**params, parameter: own}, lifespan_context=state))

    def step(self, inner: Step) -> Step:
        """Return a step that is taken inside of the guests' middleware."""

        async def step(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
            async def within(ctx: RequestContext) -> HandlerResult:
                return await inner(ctx, call_next)

            return await self.through(ctx, within) if self.all else await within(ctx)

        return step

    def _mount_of(self, kind: str, name: str) -> Mount | None:
        known = self.names.get((kind, name))
        if known or kind != "resource":
            return known
        return next((mount for mount in self.all if mount.own_name(kind, name) is not None), None)
