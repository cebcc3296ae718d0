"""Servers made of servers: what one offers is offered by another under a prefix, with its own middleware and state."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.utilities.context_injection import find_context_parameter
from mcp.server.subscriptions import SubscriptionBus
from mcp_types import InputResponseRequestParams

from coatcheck.errors import InvalidArgument
from coatcheck.executors import Jobs
from coatcheck.server.hook import RequestContext, Step, authors_middleware, chained
from coatcheck.server.settings import Settings

REACHED = {"tools/call": ("tool", "name"), "prompts/get": ("prompt", "name"), "resources/read": ("resource", "uri")}
"""By method: what is asked for, and which parameter names it."""


@dataclass(frozen=True)
class Guest:
    """What a server has of one that is mounted in it."""

    server: MCPServer[Any]
    settings: Settings
    mounts: Mounts


@dataclass
class Mount:
    """One server in another, as `prefix`."""

    guest: Guest
    prefix: str
    bus: SubscriptionBus | None = None
    """The host's, for what the guest's tools tell of."""
    state: Any = field(default_factory=dict[str, Any])
    """That of the guest's own lifespan, while the host runs."""

    def name(self, kind: str, name: str) -> str:
        """Return how the host calls what the guest calls `name`."""
        return f"{self.prefix}{'+' if kind == 'resource' else '_'}{name}"

    def own_name(self, kind: str, name: str) -> str | None:
        """Return how the guest calls what the host calls `name`; None: it is not the guest's."""
        start = self.name(kind, "")
        return name.removeprefix(start) if name.startswith(start) else None

    def seen(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the guest as one for the host: its `Context` is that of the guest."""
        parameter = find_context_parameter(function)
        if parameter is None:
            return function
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def on_loop(*args: Any, **kwargs: Any) -> Any:
                return await function(*args, **self._with_context(parameter, kwargs))

            return on_loop

        @functools.wraps(function)
        def in_thread(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **self._with_context(parameter, kwargs))

        return in_thread

    def _with_context(self, parameter: str, kwargs: dict[str, Any]) -> dict[str, Any]:
        given = kwargs.get(parameter)
        if not isinstance(given, Context):
            return kwargs
        return {**kwargs, parameter: self._context(cast("Context[Any, Any]", given))}

    def _context(self, given: Context[Any, Any]) -> Context[Any, Any]:
        try:
            request = replace(given.request_context, lifespan_context=self.state)
        except ValueError:  # a call that nobody sent
            return Context(mcp_server=self.guest.server)
        back = InputResponseRequestParams.model_construct(
            input_responses=given.input_responses, request_state=given.request_state
        )
        return Context(request_context=request, mcp_server=self.guest.server, input_params=back, subscriptions=self.bus)


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

    @asynccontextmanager
    async def living(self) -> AsyncGenerator[None]:
        """Keep what the guests' own lifespans open, and those of their guests."""
        async with AsyncExitStack() as stack:
            for mount in self.all:
                await stack.enter_async_context(mount.guest.mounts.living())
                if lifespan := mount.guest.settings.lifespan:
                    mount.state = await stack.enter_async_context(lifespan(mount.guest.server))
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
        return await handler(replace(ctx, params={**params, parameter: own}, lifespan_context=mount.state))

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
