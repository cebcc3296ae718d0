"""`Tasks`: what an `MCPServer` is given to serve tasks. Only public hooks of the SDK; nothing of it is patched."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import SubscriptionBus
from mcp_types import CallToolRequestParams
from msgspec import structs
from starlette.types import ASGIApp

from coatcheck.dialects.v2026 import EXTENSION
from coatcheck.errors import InvalidArgument
from coatcheck.executors import Jobs
from coatcheck.payload import Payload
from coatcheck.policy import Duration, Policy, lifetime
from coatcheck.server.access.authorities import Kind
from coatcheck.server.access.rates import RateWish
from coatcheck.server.access.rules import Authority
from coatcheck.server.access.settings import Access
from coatcheck.server.bodies.kinds import PROMPT_PREFIX
from coatcheck.server.calls.toolbox import SimpleTool, completer, validator
from coatcheck.server.hook import Hook, RequestContext
from coatcheck.server.local.calls import LocalCalls
from coatcheck.server.mounting import Guest, Mount, Mounts
from coatcheck.server.parts import Parts
from coatcheck.server.policy import TaskPolicy, TaskWish, policy_of
from coatcheck.server.polling import PollLimit
from coatcheck.server.runtime import Running
from coatcheck.server.settings import Lifespan, Settings
from coatcheck.task import Task, full_name
from coatcheck.tool import Tool
from coatcheck.wiring import open_store

if TYPE_CHECKING:
    from coatcheck.server.task_server import TaskServer

logger = logging.getLogger("coatcheck")
_BUILT_IN = TaskPolicy("forbidden")
_BUILT_IN_TASK = TaskPolicy("optional")


class Tasks(Extension):
    """The extension `io.modelcontextprotocol/tasks` for an `MCPServer`.

    Give it to the server as `extensions=[tasks]` and `lifespan=tasks.lifespan`, and put `@tasks.tool()` under
    `@server.tool()`. `TaskServer` does that for you.
    """

    identifier = EXTENSION

    def __init__(
        self,
        store: str | None = None,
        *,
        default: TaskWish | None = None,
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
        subscriptions: SubscriptionBus | None = None,
        lifespan: Lifespan | None = None,
    ) -> None:
        """Keep tasks at `store`, a URL; without one, in a file named after the server.

        `default` is what tools get that say nothing else. `max_unfinished` bounds the unfinished tasks of all callers
        with neither a principal nor a session together, `policy.quota` those of each known one. `poll_limit` refuses
        more polls than that per poll interval. `concurrency` tasks run at once here; 0 leaves them to others. `docket`
        is the Redis in which Docket carries them. `strict` refuses hosts that are frozen between requests.
        `strict_headers=False` also serves clients that leave out the Mcp-Name header. `grace` is what running tasks
        have to finish when the server stops, `heartbeat` how long the caller of a slow tool is left without progress.
        `bind_sessions=False` lets callers without a principal use ids in any session, `fallback_tools=False` gives none
        tickets. `access` says who may do what. Without the server's `subscriptions`, `ctx.notify_…` is for plain calls.
        """
        self._default = policy_of(default)
        self._settings = Settings(
            store=store,
            concurrency=concurrency,
            docket=docket,
            strict=strict,
            policy=structs.replace(policy, anonymous_quota=max_unfinished),
            key=key,
            strict_headers=strict_headers,
            grace=grace,
            heartbeat=heartbeat,
            binds_sessions=bind_sessions,
            has_ticket_tools=fallback_tools,
            access=access,
            subscriptions=subscriptions,
            lifespan=lifespan,
        )
        self._parts = self._made_of(self._settings, None if poll_limit is None else PollLimit(poll_limit))

    def _made_of(self, settings: Settings, limit: PollLimit | None) -> Parts:
        return Parts(settings, limit)

    # For authors

    def tool(
        self,
        task: TaskWish | None = True,
        *,
        name: str | None = None,
        authorize: Authority | None = None,
        rate: RateWish | None = None,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorator: let calls of this tool become tasks. It goes under `@server.tool()`, with the same `name`.

        `authorize` says who may call it, `rate` how often.
        """
        if callable(task):
            raise TypeError("Write @tasks.tool() with its parentheses.")

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            known_as = name or function.__name__
            registered = self.add(function, known_as, task)
            self.limit(known_as, authorize=authorize, rate=rate, function=registered)
            return registered

        return decorate

    def add(self, function: Callable[..., Any], name: str, task: TaskWish | None = None) -> Callable[..., Any]:
        """Return what to register with the server under `name` in place of `function`. Works at any time."""
        # Whoever says anything of a tool's tasks wants them.
        policy = policy_of(task).over(self._default).over(_BUILT_IN if task is None else _BUILT_IN_TASK)
        lifetime(self._settings.policy, policy.terms())  # refuse now what would be refused in every call
        return self._parts.toolbox.add(function, name, policy)

    def register(self, function: Callable[..., Any], name: str, task: TaskWish | None = None) -> Callable[..., Any]:
        """As `add`, for those who see to it that what is returned is, and stays, the tool of that name."""
        registered = self.add(function, name, task)
        self._parts.toolbox.note_simple(registered, name)
        return registered

    def limit(
        self,
        tool: str,
        *,
        authorize: Authority | None = None,
        rate: RateWish | None = None,
        function: Callable[..., Any] | None = None,
    ) -> None:
        """Say who may call a tool, and how often. With its `function`, a rule sees the arguments as that gets them."""
        gate = self._parts.gate
        if authorize is not None:
            gate.authorities.set("tool", tool, authorize)
        if function is not None:
            gate.authorities.know("tool", tool, partial(validator, function, tool))
        if rate is not None:
            gate.rates.set(tool, rate)

    def say(
        self,
        kind: Literal["resource", "prompt"],
        name: str,
        *,
        task: TaskWish | None = None,
        authorize: Authority | None = None,
        function: Callable[..., Any] | None = None,
    ) -> None:
        """Say whether reading a resource, or rendering a prompt, may be a task for your own code, and who may do it.
        Whoever says it first is right.
        """
        self.protect(kind, name, authorize, function=function)
        policy = policy_of(task).over(self._default).over(_BUILT_IN if task is None else _BUILT_IN_TASK)
        lifetime(self._settings.policy, policy.terms())
        self._parts.toolbox.add_content(f"{kind}:{name}", policy)

    def protect(
        self,
        kind: Literal["resource", "prompt"],
        name: str,
        authorize: Authority | None,
        *,
        function: Callable[..., Any] | None = None,
    ) -> None:
        """Say who may use a resource, known by its URI or by its template, or a prompt. The first to say it is right:
        of two components with one name, the first stays, too.

        With its `function`, a rule also sees the arguments that are left out.
        """
        authorities = self._parts.gate.authorities
        if authorize is not None and authorities.own_rule(kind, name) is None:
            authorities.set(kind, name, authorize)
        if function is not None:
            authorities.know(kind, name, partial(completer, function))

    def remove(self, name: str) -> None:
        """Forget a tool. Its tasks wait for a server that has it."""
        self._parts.toolbox.remove(name)
        self._parts.gate.forget(name)
        self.mounts.names.pop(("tool", name), None)

    def remove_prompt(self, name: str) -> None:
        """Forget a prompt likewise."""
        self._parts.toolbox.remove(f"{PROMPT_PREFIX}{name}")
        self._parts.gate.authorities.remove("prompt", name)
        self.mounts.names.pop(("prompt", name), None)

    def mount(self, host: MCPServer[Any], guest: TaskServer, prefix: str) -> Mount:
        """Take in another server.

        Raises:
            InvalidArgument: The prefix is taken or none, the guest is this server or has it as a guest, or it comes too
                late.
        """
        theirs = guest.tasks
        mounted = Guest(guest, theirs._settings, theirs.mounts)
        if guest is host or theirs.mounts.have(host):
            raise InvalidArgument("A server cannot be mounted in itself.")
        if mounted.needs_a_start and self.local.runs:
            raise InvalidArgument("This server runs already, and the guest has a lifespan or jobs; mount it before.")
        mount = self.mounts.add(mounted, prefix, self._settings.subscriptions)
        theirs.local.go_by(self.local, mount)
        return mount

    def said_of(self, kind: Kind, name: str) -> dict[str, Any]:
        """Return what was said of a component, as it is said again where this server is mounted."""
        gate, toolbox = self._parts.gate, self._parts.toolbox
        row = name if kind == "tool" else f"{kind}:{name}"
        said: dict[str, Any] = {
            "task": toolbox.policy_of(row) or _BUILT_IN,
            "authorize": gate.authorities.rule(kind, name),
        }
        return {**said, "rate": gate.rates.of(name)} if kind == "tool" else said

    def share_rates(self, tool: str, mount: Mount, theirs: Tasks) -> None:
        """Hold a guest's tool to what its server says of all its tools together."""
        if rates := theirs._parts.gate.rates.all:
            self._parts.gate.rates.share(tool, mount.prefix, rates)

    def look_after(self, jobs: Jobs) -> Jobs:
        """Return the jobs; while this server runs tasks, those of tasks that have ended are stopped, whoever died."""
        self._settings.jobs.append(jobs)
        return jobs

    @asynccontextmanager
    async def lifespan(self, server: MCPServer[Any]) -> AsyncGenerator[Any]:
        """The server's lifespan: engine and worker run as long as it does, around the author's own lifespan."""
        if self.middleware not in server.middleware:
            server.middleware.append(self.middleware)
        if not self._parts.runtime.is_running:
            names = {tool.name for tool in await server.list_tools()}
            self._look_for_strays(names)
            if self._parts.ticket_tools:
                self._parts.ticket_tools.add_to(server, names)
                self._parts.gate.authorities.open = self._parts.ticket_tools.names
        async with self._parts.runtime.serve(server) as state:
            yield state

    def _look_for_strays(self, names: set[str]) -> None:
        for name in self._parts.toolbox.policies.keys() - names:
            logger.warning(
                "There is no tool %r here to make tasks of; put @tasks.tool() directly under @server.tool(), "
                "with the same name",
                name,
            )

    # For operators

    @property
    def is_running(self) -> bool:
        return self._parts.runtime.is_running

    @property
    def running(self) -> Running:
        """The engine and the worker, while the server runs."""
        return self._parts.runtime.running

    def end_streams(self) -> None:
        """Begin to stop: end the streams that clients hold open, as agreed with them. Safe in a signal handler."""
        if self._parts.runtime.is_running:
            self._parts.runtime.running.end_streams()

    def url(self, server: str) -> str:
        """Return where the tasks of a server of this name are kept."""
        return self._settings.url(server)

    def slots(self) -> int:
        """Return how many tasks this process would run at once."""
        return self._settings.slots()

    def bodies(self) -> list[Tool]:
        """Return the tools as they are where they run, for a process that runs one task of one of them."""
        return self._parts.toolbox.bodies()

    async def check(self, server: MCPServer[Any]) -> None:
        """See whether the server could start: what its settings say, and what tasks are kept in.

        Raises:
            StoreError: It cannot be used.
            InvalidArgument: A setting cannot be used.
        """
        self._parts.runtime.check(server)
        async with open_store(self.url(server.name), key=self._settings.key):
            pass

    def describe(self) -> list[str]:
        """Return the tools that may be tasks, and how, for people to read."""
        policies = sorted(self._parts.toolbox.policies.items())
        return [f"{full_name(name, policy.terms().version)} ({policy.mode})" for name, policy in policies]

    # For your own code

    @property
    def bus(self) -> SubscriptionBus | None:
        """Where tools tell of changes to what the server offers."""
        return self._settings.subscriptions

    @property
    def local(self) -> LocalCalls:
        return self._parts.local

    @property
    def mounts(self) -> Mounts:
        return self._parts.mounts

    # For the shorter way

    @property
    def may_shorten(self) -> bool:
        """Whether a poll has no effect but its answer."""
        return self._parts.runtime.is_running and not self._parts.polls.are_counted

    def call_shortcut(self) -> Any:
        """Return a shorter way for `tools/call` than to hand a call in, if there is one."""
        return None

    def shortened(self, app: ASGIApp, server: MCPServer[Any]) -> ASGIApp:
        """Return the endpoint with any other shorter ways there are."""
        return app

    def stops_without(self, tool: str) -> bool:
        """Whether calls of a tool are stopped when their caller hangs up."""
        policy = self._parts.toolbox.policies.get(tool)
        return policy is not None and (policy.cancel_on_disconnect is True or policy.patience is not None)

    @property
    def simple_tools(self) -> Mapping[str, SimpleTool]:
        return self._parts.toolbox.simple if self._parts.gate.is_open else {}

    async def poll(self, task_id: str, *, owner: str | None) -> Task:
        return await self._parts.polls.poll(task_id, owner)

    async def submit(self, name: str, arguments: Payload, *, owner: str | None, meta: Payload) -> Task:
        return await self._parts.calls.submit(name, arguments, owner=owner, meta=meta)

    # For the SDK

    def methods(self) -> Sequence[MethodBinding]:
        return self._parts.methods()

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext
    ) -> HandlerResult:
        return await self._parts.calls.intercept(params, ctx, call_next)

    @property
    def middleware(self) -> Hook:
        """The part an extension has no hook for."""
        return self._parts.hook


def tasks_of(server: MCPServer[Any]) -> Tasks | None:
    """Return the tasks a server was given, told by its lifespan."""
    tasks = getattr(server.settings.lifespan, "__self__", None)
    return tasks if isinstance(tasks, Tasks) else None
