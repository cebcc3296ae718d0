"""`Tasks`: what an `MCPServer` is given to serve tasks. Only public hooks of the SDK; nothing of it is patched."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer, require_client_extension
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams

from coatcheck.context import TaskContext
from coatcheck.dialects.v2026 import EXTENSION, plain, write_created, write_error
from coatcheck.errors import InvalidArgument
from coatcheck.payload import decode, encode
from coatcheck.policy import Policy
from coatcheck.server.body import run_body
from coatcheck.server.failures import as_protocol_errors
from coatcheck.server.identity import owner_of
from coatcheck.server.listen import METHOD, listen
from coatcheck.server.methods import VERSIONS, Methods
from coatcheck.server.offer import OFFERS, Caller, Offer
from coatcheck.server.plain_context import PlainContext
from coatcheck.server.policy import TaskPolicy, TaskWish, policy_of
from coatcheck.server.polling import PollLimit
from coatcheck.server.record import read_request
from coatcheck.server.runtime import Lifespan, Running, Runtime, Settings
from coatcheck.server.stand_in import HandedIn, handing_in, running, stand_in
from coatcheck.task import NOTHING, Status, Task
from coatcheck.tool import Outcome, Tool

_BUILT_IN = TaskPolicy("forbidden", resumable=False)


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
        key: str | None = None,
        strict_headers: bool = True,
        lifespan: Lifespan | None = None,
    ) -> None:
        """Prepare tasks kept at `store`, a URL; without one, in a file named after the server.

        `default` is what tools get that say nothing else. `max_unfinished` bounds the unfinished tasks of all
        anonymous callers together, `policy.quota` those of each known one. `poll_limit` refuses polls more often
        than that many per poll interval. `concurrency` tasks run at once in this process; 0 leaves them to others.
        `strict_headers=False` also serves clients that leave out the Mcp-Name header the protocol asks for.
        """
        if concurrency < 0:
            raise InvalidArgument(f"concurrency must be 0 or more, but it is {concurrency}.")
        self._default = policy_of(default).over(_BUILT_IN)
        self._policies: dict[str, TaskPolicy] = {}
        policy = msgspec.structs.replace(policy, anonymous_quota=max_unfinished)
        self._settings = Settings(store, concurrency, policy, key, strict_headers, lifespan)
        self._runtime = Runtime(self._settings, lambda: [self._tool(name) for name in self._policies])
        self._methods = Methods(self._runtime, PollLimit(poll_limit) if poll_limit else None, self._settings.needs_name)

    # For authors

    def tool(
        self, task: TaskWish | None = True, *, name: str | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorator: let calls of this tool become tasks. It goes under `@server.tool()`, with the same `name`."""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            return self.add(function, name or function.__name__, task)

        return decorate

    def add(self, function: Callable[..., Any], name: str, task: TaskWish | None = None) -> Callable[..., Any]:
        """Return what to register with the server under `name` in place of `function`. Works at any time."""
        policy = policy_of(task).over(self._default)
        if policy.mode == "forbidden":
            self._policies.pop(name, None)
            return function
        self._policies[name] = policy
        if self._runtime.is_running and (worker := self._runtime.running.worker):
            worker.add(self._tool(name))
        return stand_in(function, name)

    @asynccontextmanager
    async def lifespan(self, server: MCPServer[Any]) -> AsyncGenerator[Any]:
        """The server's lifespan: engine and worker run as long as it does, around the author's own lifespan."""
        if self.middleware not in server.middleware:
            server.middleware.append(self.middleware)
        async with self._runtime.serve(server) as state:
            yield state

    @property
    def running(self) -> Running:
        """The engine, the worker and the store's URL, while the server runs."""
        return self._runtime.running

    def end_streams(self) -> None:
        """Begin to stop: end the streams that clients hold open, as agreed with them. Safe in a signal handler."""
        if self._runtime.is_running:
            self._runtime.running.end_streams()

    def url(self, server: str) -> str:
        """Return where the tasks of a server of this name are kept."""
        return self._settings.url(server)

    def describe(self) -> list[str]:
        """Return the tools that may be tasks, and how, for people to read."""
        return [f"{name} ({policy.mode})" for name, policy in sorted(self._policies.items())]

    @property
    def may_shorten_polls(self) -> bool:
        """Whether a poll has no effect but its answer."""
        return self._runtime.is_running and not self._methods.counts_polls

    # For the SDK

    def methods(self) -> Sequence[MethodBinding]:
        return self._methods.bindings()

    async def middleware(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """The part an extension has no hook for: streams."""
        if ctx.method == METHOD and ctx.protocol_version in VERSIONS:
            return await listen(self._runtime.running, ctx, call_next)
        return await call_next(ctx)

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        policy = self._policies.get(params.name)
        if policy is None or policy.mode is msgspec.UNSET:
            return await call_next(ctx)
        match OFFERS[policy.mode, _caller(ctx)]:
            case Offer.TASK:
                return await self._hand_in(policy, params, ctx, call_next)
            case Offer.REFUSE:
                require_client_extension(ctx, EXTENSION)
            case Offer.RUN:
                running.set(PlainContext(params.name, ctx.session.report_progress))
        return await call_next(ctx)

    async def _hand_in(
        self,
        policy: TaskPolicy,
        params: CallToolRequestParams,
        ctx: ServerRequestContext[Any, Any],
        call_next: CallNext,
    ) -> HandlerResult:
        """Let the SDK do all it does before a tool's body, and make a task where the body would have begun."""
        handing_in.set(params.name)
        try:
            return await call_next(ctx)
        except HandedIn:
            pass
        finally:
            handing_in.set(None)
        with as_protocol_errors():
            task = await self._submit(policy, params, ctx)
        if policy.patience is not None:
            task = await self._settled(task, policy.patience)
            if task.status.is_terminal:
                return await self._direct(task)
        return plain(write_created(task))

    async def _submit(
        self, policy: TaskPolicy, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any]
    ) -> Task:
        engine, worker = self.running.engine, self.running.worker
        arguments = NOTHING if not params.arguments else encode(params.arguments)
        owner, meta = owner_of(ctx), read_request(ctx, params)
        if worker:
            return await worker.submit(params.name, arguments, owner=owner, meta=meta)
        return await engine.submit(params.name, arguments, owner=owner, terms=policy.terms(), meta=meta)

    async def _settled(self, task: Task, patience: float) -> Task:
        """Wait for the task to end, to ask something, or for `patience` seconds."""
        return await self.running.engine.settled(task, patience)

    async def _direct(self, task: Task) -> HandlerResult:
        """Answer with a task's outcome as if it had never been one. Nobody knows its id, so it is forgotten."""
        await self.running.engine.forget(task)
        if task.status is Status.COMPLETED:
            return decode(task.result)
        if task.failure:
            error = write_error(task.failure)
            raise MCPError(error.code, error.message, decode(error.data))
        raise MCPError(-32603, f"The call was {task.status}")

    def _tool(self, name: str) -> Tool:
        policy = self._policies[name]

        def work(context: TaskContext, arguments: Mapping[str, Any]) -> Awaitable[Outcome]:
            running = self._runtime.running
            return run_body(running.server, running.state, context, arguments)

        return Tool(name=name, work=work, terms=policy.terms(), timeout=policy.limit)


def _caller(ctx: ServerRequestContext[Any, Any]) -> Caller:
    capabilities = ctx.session.client_capabilities if ctx.protocol_version in VERSIONS else None
    declared = capabilities.extensions if capabilities else None
    return Caller.ACCEPTS_TASKS if declared and EXTENSION in declared else Caller.KNOWS_NO_TASKS
