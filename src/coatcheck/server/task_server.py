"""`TaskServer`: the SDK's `MCPServer`, whose tools may be tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from mcp.server.extension import Extension
from mcp.server.mcpserver import RequestStateSecurity
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import Resource
from mcp.server.mcpserver.tools import Tool
from mcp.server.subscriptions import InMemorySubscriptionBus, SubscriptionBus
from starlette.applications import Starlette
from starlette.types import ASGIApp

from coatcheck.errors import InvalidArgument
from coatcheck.policy import Duration, Policy
from coatcheck.server.access.rates import RateWish
from coatcheck.server.access.rules import Authority
from coatcheck.server.access.settings import Access
from coatcheck.server.access.tokens.operators import signed_in
from coatcheck.server.access.tokens.verifier import JWTVerifier
from coatcheck.server.http.app import replaced
from coatcheck.server.http.fast_path import FastPath
from coatcheck.server.http.seats import Seats
from coatcheck.server.local.server import LocalServer
from coatcheck.server.offering import Kind, Offering
from coatcheck.server.policy import TaskWish
from coatcheck.server.settings import Lifespan
from coatcheck.server.tasks import Tasks

STATE_KEY_VARIABLE = "COATCHECK_STATE_KEY"
"""Seals what clients carry between the rounds of one call, where several processes serve them."""
Function = TypeVar("Function", bound=Callable[..., Any])


class TaskServer(LocalServer):
    """An `MCPServer` with everything that has, and `task=` on its tools, resources and prompts.

    `store` is where tasks are kept, `task` what they get that say nothing else, and `tokens` what callers must show.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        store: str | None = None,
        task: TaskWish | None = None,
        policy: Policy = Policy(),
        max_unfinished: int | None = 10_000,
        poll_limit: float | None = None,
        concurrency: int = 10_000,
        docket: str | None = None,
        strict: bool = False,
        key: str | None = None,
        strict_headers: bool = True,
        grace: Duration = 10.0,
        heartbeat: Duration = 15.0,
        bind_sessions: bool = True,
        fallback_tools: bool = True,
        access: Access = Access(),
        tokens: JWTVerifier | None = None,
        subscriptions: SubscriptionBus | Literal[False] | None = None,
        tools: Sequence[Tool] = (),
        lifespan: Lifespan | None = None,
        extensions: Sequence[Extension] = (),
        **options: Any,
    ) -> None:
        """Take what `MCPServer` takes, as keywords, and what `Tasks` takes."""
        bus = InMemorySubscriptionBus() if subscriptions in (None, False) else subscriptions
        amounts = {"policy": policy, "max_unfinished": max_unfinished, "poll_limit": poll_limit}
        running = {"concurrency": concurrency, "docket": docket, "strict": strict, "grace": grace, "lifespan": lifespan}
        callers = {"strict_headers": strict_headers, "bind_sessions": bind_sessions, "access": access}
        waiting = {"heartbeat": heartbeat, "fallback_tools": fallback_tools, "subscriptions": bus}
        self.tasks = self._tasks(store, default=task, key=key, **amounts, **running, **callers, **waiting)
        self._names: set[str] = set()
        self._offering = Offering(self)
        self.tasks.local.extensions = extensions
        self._is_alone = not extensions  # what else intercepts calls must see them all
        options |= {"lifespan": self.tasks.lifespan, "extensions": [*extensions, self.tasks]}
        options |= signed_in(tokens, options)
        options |= {"subscriptions": False if subscriptions is False else bus, **_sealed(options, name)}
        super().__init__(name, tools=[self._adapted(tool) for tool in tools], **options)

    def _tasks(self, store: str | None, **settings: Any) -> Tasks:
        return Tasks(store, **settings)

    def tool(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        name: str | None = None,
        *,
        task: TaskWish | None = None,
        authorize: Authority | None = None,
        rate: RateWish | None = None,
        **options: Any,
    ) -> Callable[[Function], Function]:
        """Decorator to register a tool. `task`: True or "optional", "required", "forbidden", or a `TaskPolicy`.

        `authorize` says who may see and call it: a rule, as `role("admin")`, or a function of the caller and the
        arguments. `rate` says how often.
        """
        if callable(name):
            raise TypeError("Write @server.tool() with its parentheses.")

        def decorate(function: Function) -> Function:
            self.add_tool(function, name, task=task, authorize=authorize, rate=rate, **options)
            return function

        return decorate

    def add_tool(self, fn: Callable[..., Any], name: str | None = None, *args: Any, **options: Any) -> None:
        """Add a tool, at any time; `task=`, `authorize=` and `rate=` as in `tool`.

        As ever, the first of two with one name stays.
        """
        task: TaskWish | None = options.pop("task", None)
        authorize: Authority | None = options.pop("authorize", None)
        rate: RateWish | None = options.pop("rate", None)
        known_as = name or fn.__name__
        if known_as not in self._names:
            self._names.add(known_as)
            given = fn
            is_mounted = ("tool", known_as) in self.tasks.mounts.names
            fn = (self.tasks.register if self._is_alone and not is_mounted else self.tasks.add)(fn, known_as, task)
            self.tasks.limit(known_as, authorize=authorize, rate=rate, function=fn)
            self._offering.put_tool(known_as, given, args, options)
        super().add_tool(fn, name, *args, **options)

    def resource(
        self, uri: str, *, task: TaskWish | None = None, authorize: Authority | None = None, **options: Any
    ) -> Callable[[Any], Any]:
        """As `MCPServer.resource`. `task` says whether reads by your own code may be tasks, `authorize` who may see
        and read it; its arguments are the template's.
        """
        decorate = super().resource(uri, **options)

        def added(function: Any) -> Any:
            self.tasks.say("resource", uri, task=task, authorize=authorize, function=function)
            if "{" in uri:  # others come by add_resource
                self._offering.put_template(uri, function, options)
            return decorate(function)

        return added

    def add_resource(self, resource: Resource) -> None:
        """As `MCPServer.add_resource`."""
        self.tasks.say("resource", str(resource.uri))  # as long as nobody has
        super().add_resource(resource)
        self._offering.put_resource(resource)

    def prompt(
        self,
        name: str | None = None,
        *args: Any,
        task: TaskWish | None = None,
        authorize: Authority | None = None,
        **options: Any,
    ) -> Callable[[Any], Any]:
        """As `MCPServer.prompt`. `task` says whether your own code may have tasks of it, `authorize` who may use it."""
        decorate = super().prompt(name, *args, **options)

        def added(function: Any) -> Any:
            self.tasks.say("prompt", name or function.__name__, task=task, authorize=authorize, function=function)
            return decorate(function)

        return added

    def add_prompt(self, prompt: Prompt) -> None:
        """As `MCPServer.add_prompt`."""
        self.tasks.say("prompt", prompt.name)  # as long as nobody has
        super().add_prompt(prompt)
        self._offering.put_prompt(prompt)

    def remove_prompt(self, name: str) -> None:
        """As `MCPServer.remove_prompt`."""
        super().remove_prompt(name)
        self.tasks.remove_prompt(name)
        self._offering.take("prompt", name)

    def mount(self, guest: TaskServer, prefix: str) -> None:
        """Offer what another server offers, as `prefix_tool`, `prefix_prompt` and `prefix+resource`.

        Its middleware and its rules hold, its tools find its own lifespan's state, and tasks are kept and run here.

        Raises:
            InvalidArgument: The prefix is taken or none, the guest is this server, or it has a lifespan and this server
                runs already.
        """
        guest._offering.join(self, self.tasks.mount(self, guest, prefix))

    def offers(self, kind: Kind, name: str) -> bool:
        """Whether there is a tool, a resource, a template or a prompt of this name, its own or a guest's."""
        return self._offering.has(kind, name)

    def _adapted(self, tool: Tool) -> Tool:
        """Return a ready-made tool under the server's default policy."""
        self._names.add(tool.name)
        said = ("title", "description", "annotations", "icons", "meta")
        self._offering.put_tool(tool.name, tool.fn, (), {each: getattr(tool, each) for each in said})
        function = self.tasks.add(tool.fn, tool.name)
        return tool if function is tool.fn else tool.model_copy(update={"fn": function, "is_async": True})

    def remove_tool(self, name: str) -> None:
        """Remove a tool. Tasks of it that are not running yet stay where they are."""
        super().remove_tool(name)
        self._names.discard(name)
        self.tasks.remove(name)
        self._offering.take("tool", name)

    def streamable_http_app(self, **options: Any) -> Starlette:
        """Return the ASGI application, with a shorter way for polls and for those who wait."""
        app = super().streamable_http_app(**options)

        def answer(endpoint: ASGIApp) -> ASGIApp:
            return FastPath(Seats(endpoint, self, self.tasks), self, self.tasks)

        routes = replaced(app.router.routes, self, answer)
        return Starlette(
            debug=app.debug, routes=routes, middleware=app.user_middleware, lifespan=app.router.lifespan_context
        )


def _sealed(options: dict[str, Any], name: str | None) -> dict[str, Any]:
    """Return the options with the operator's key for what clients carry between rounds, if there is one."""
    key = os.environ.get(STATE_KEY_VARIABLE)
    if not key or "request_state_security" in options:
        return options
    try:
        security = RequestStateSecurity(keys=[key], audience=name or "coatcheck")
    except ValueError as error:
        raise InvalidArgument(f"{STATE_KEY_VARIABLE} is no key; use 64 random hexadecimal digits.") from error
    return {**options, "request_state_security": security}
