"""Calls of your own code that are to be tasks: the way of any other call, up to where the task is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import Extension, compose_tool_call_handler
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context
from mcp_types import CallToolRequestParams, CallToolResult, GetPromptResult
from msgspec import UNSET

from coatcheck.context import TaskContext
from coatcheck.dialects import v2026
from coatcheck.errors import AnsweredOtherwise, Forbidden, InvalidArgument, TooOften
from coatcheck.family import family_of
from coatcheck.payload import encode
from coatcheck.server.access.authorities import resolve
from coatcheck.server.access.gate import Gate
from coatcheck.server.bodies.kinds import PROMPT, PROMPT_PREFIX, RESOURCE, RESOURCE_PREFIX, TOOL, Kind, kind_of
from coatcheck.server.calls.calls import Calls, before_the_body
from coatcheck.server.calls.toolbox import Toolbox
from coatcheck.server.hook import RequestContext, authors_middleware, chained
from coatcheck.server.listing import page
from coatcheck.server.local.asker import AnyContext, Asker, asker_of, task_of
from coatcheck.server.local.handle import LocalTask, TaskPage
from coatcheck.server.local.meta import TaskMeta, component_of, keyed, row_of
from coatcheck.server.mounting import Mount, Mounts
from coatcheck.server.runtime import Running, Runtime
from coatcheck.task import Task

_LARGEST_PAGE = 500
Result = TypeVar("Result")
Json = Mapping[str, Any]
Prepare = Callable[[RequestContext, Json], Awaitable[None]]
"""Sees to it that a call with these arguments would be carried out, short of doing it."""


@dataclass(frozen=True, slots=True)
class _Call(Generic[Result]):
    """What is called, and how it looks as a request."""

    kind: Kind[Result]
    row: str
    name: str
    """By which it is known to callers: that of the tool or prompt, or the resource's URI."""
    method: str
    params: Json

    def arguments_of(self, request: RequestContext) -> Json:
        """Return the arguments, as the middleware left them."""
        params = request.params or {}
        return {"uri": params["uri"]} if "uri" in params else params["arguments"]


class LocalCalls:
    """Behind `TaskServer.call_tool` and its like. All of it needs the server to run."""

    def __init__(self, runtime: Runtime, toolbox: Toolbox, calls: Calls, gate: Gate, mounts: Mounts) -> None:
        self._runtime, self._toolbox, self._calls, self._gate, self._mounts = runtime, toolbox, calls, gate, mounts
        self.extensions: Sequence[Extension] = ()
        """The server's other extensions, which see calls of tools first, as they do over the wire."""
        self._hosts: list[tuple[LocalCalls, Mount]] = []

    def go_by(self, host: LocalCalls, mount: Mount) -> None:
        """Have the host make tasks, too: those of what it runs, and all while this server does not run by itself."""
        self._hosts.append((host, mount))

    @property
    def runs(self) -> bool:
        """Whether tasks can be made, here or by a host."""
        return self._leads_to(None)

    @property
    def state(self) -> Any:
        """What the server's lifespan has yielded, here or at a host; None: nobody runs."""
        if self._runtime.is_running:
            return self._runtime.running.state
        return next((mount.state for host, mount in self._hosts if host.runs), None)

    def _elsewhere(self, kind: str, name: str, context: AnyContext | None) -> tuple[LocalCalls, str] | None:
        """Return the host that makes the task of a call, and how that calls what is called."""
        for task in (task_of(context), None):
            if self._keeps(task):
                return None
            for host, mount in self._hosts:
                if host._leads_to(task):
                    return host, mount.name(kind, name)
        return None

    def _keeps(self, task: TaskContext | None) -> bool:
        """Whether tasks are kept here, and so is this one."""
        return self._runtime.is_running and (task is None or task.is_of(self._runtime.running.engine))

    def _leads_to(self, task: TaskContext | None) -> bool:
        return self._keeps(task) or any(host._leads_to(task) for host, _ in self._hosts)

    async def call_tool(
        self, name: str, arguments: Json, meta: TaskMeta, context: AnyContext | None = None
    ) -> LocalTask[CallToolResult]:
        """Make a task of a tool's call.

        Raises:
            InvalidArgument: There is no such tool, or none whose calls may be tasks.
            ToolError: The arguments do not fit.
            Forbidden, TooOften: Whoever it is done for may not do it, or not so soon.
            QuotaExceeded: There are too many unfinished tasks.
            AnsweredOtherwise: A middleware answered in place of the tool.
        """
        if elsewhere := self._elsewhere("tool", name, context):
            host, known_as = elsewhere
            return await host.call_tool(known_as, arguments, meta, context)
        call = _Call(TOOL, name, name, "tools/call", {"name": name, "arguments": dict(arguments)})
        return await self._hand_in(call, meta, context, partial(self._prepare_tool, name))

    async def read_resource(
        self, uri: str, meta: TaskMeta, context: AnyContext | None = None
    ) -> LocalTask[list[ReadResourceContents]]:
        """The same of a resource, or of what a template makes."""
        if elsewhere := self._elsewhere("resource", uri, context):
            host, known_as = elsewhere
            return await host.read_resource(known_as, meta, context)
        name, _ = await resolve(self._runtime.running.server, uri)
        row = f"{RESOURCE_PREFIX}{name}"
        call = _Call(RESOURCE, row, uri, "resources/read", {"uri": uri})
        return await self._hand_in(call, meta, context, self._prepare_nothing)

    async def render_prompt(
        self, name: str, arguments: Mapping[str, str], meta: TaskMeta, context: AnyContext | None = None
    ) -> LocalTask[GetPromptResult]:
        """The same of a prompt."""
        if elsewhere := self._elsewhere("prompt", name, context):
            host, known_as = elsewhere
            return await host.render_prompt(known_as, arguments, meta, context)
        row = f"{PROMPT_PREFIX}{name}"
        call = _Call(PROMPT, row, name, "prompts/get", {"name": name, "arguments": dict(arguments)})
        return await self._hand_in(call, meta, context, partial(self._prepare_prompt, name))

    async def task(self, task_id: str, owner: str | None) -> LocalTask[Any]:
        """Return a handle of a task that is there already."""
        if elsewhere := self._elsewhere("tool", "", None):
            return await elsewhere[0].task(task_id, owner)
        return self._handle(await self._runtime.running.engine.get(task_id, owner))

    async def list(self, owner: str | None, cursor: str | None, page_size: int) -> TaskPage:
        if elsewhere := self._elsewhere("tool", "", None):
            return await elsewhere[0].list(owner, cursor, page_size)
        if not 1 <= page_size <= _LARGEST_PAGE:
            raise InvalidArgument(f"page_size must be from 1 to {_LARGEST_PAGE}, but it is {page_size}.")
        found, following = await page(self._runtime.running.desk, owner, cursor, page_size)
        return TaskPage([self._handle(task) for task in found], following)

    def _handle(self, task: Task) -> LocalTask[Any]:
        return LocalTask(self._runtime.running.engine, task, kind_of(task.call.tool))

    async def _hand_in(
        self, call: _Call[Result], meta: TaskMeta, context: AnyContext | None, prepare: Prepare
    ) -> LocalTask[Result]:
        served = self._runtime.running
        meta = keyed(meta, component_of(call.row))
        row = self._row(call, meta.component or "")
        asker = asker_of(served, context)
        made: list[Task] = []

        async def hand_in(request: RequestContext) -> HandlerResult:
            arguments = call.arguments_of(request)
            await self._admit(served, asker, call, row, arguments)
            await prepare(request, arguments)
            made.append(await self._submit(served, asker, request, meta, row, arguments))
            return v2026.plain(v2026.write_created(made[0]))

        intercepted = self._intercepted(hand_in) if call.kind is TOOL and self.extensions else hand_in
        reached = chained(authors_middleware(served.server), partial(self._mounts.through, call_next=intercepted))
        answer = await reached(asker.asks(served, call.method, call.params))
        if not made:
            raise AnsweredOtherwise(call.name, answer)
        (task,) = made
        family = family_of(asker.task, served.engine) if asker.task and task.is_child else None
        if family:
            await family.welcome(task)
        return LocalTask(served.engine, task, call.kind, family)

    def _intercepted(self, hand_in: CallNext) -> CallNext:
        async def through(ctx: RequestContext) -> HandlerResult:
            async def handler(given: RequestContext, params: CallToolRequestParams) -> HandlerResult:
                return await hand_in(replace(given, params=ctx.params))  # which only middleware can change

            called = CallToolRequestParams.model_validate(ctx.params, by_name=False)
            return await compose_tool_call_handler(self.extensions, handler)(ctx, called)

        return through

    def _row(self, call: _Call[Any], component: str) -> str:
        """Return the name that the task's row has.

        Raises:
            InvalidArgument: Nobody here could carry the call out.
        """
        row = row_of(component)
        if component == component_of(row) and kind_of(row) is call.kind and self._toolbox.policy_of(row):
            return row
        if component == component_of(call.row):
            raise InvalidArgument(
                f"Calls of {call.kind.word} {call.name!r} are no tasks here; register it with task=True, or leave out "
                "task_meta."
            )
        raise InvalidArgument(
            f"No {call.kind.word} that may be a task is known as {component!r} here; leave out component, and it is "
            "filled in."
        )

    async def _admit(self, served: Running, asker: Asker, call: _Call[Any], row: str, arguments: Json) -> None:
        """Hold a call that is made for someone to what that one may do with what will run. Your own code may do
        everything.
        """
        if asker.is_nobody:
            return
        owner, rules = asker.owner(served), self._gate.authorities
        try:
            match call.kind.word:
                case "tool":
                    await rules.check_tool(row, arguments)
                    self._gate.rates.check(row, owner)
                case "prompt":
                    await rules.check_prompt(row.removeprefix(PROMPT_PREFIX), arguments)
                case _:
                    await rules.check_resource(served.server, str(arguments["uri"]))
        except (Forbidden, TooOften) as error:
            reason = "too often" if isinstance(error, TooOften) else "not allowed"
            served.desk.audit.denied(owner, call.method, reason, **{call.kind.word: call.name})
            raise

    async def _submit(
        self, served: Running, asker: Asker, request: RequestContext, meta: TaskMeta, row: str, arguments: Json
    ) -> Task:
        payload = encode(dict(arguments))
        wishes: dict[str, Any] = {"ttl": meta.ttl, "meta": asker.remembers(request), "key": meta.idempotency_key}
        if asker.task and meta.owner is UNSET:
            key = meta.idempotency_key or asker.task.child_key(row, payload)
            wishes |= {"key": key, "owner": None, "parent": asker.task.task}
        else:
            wishes["owner"] = asker.owner(served) if meta.owner is UNSET else meta.owner
        return await self._calls.submit(row, payload, **wishes)

    async def _prepare_tool(self, name: str, request: RequestContext, arguments: Json) -> None:
        """Have the SDK validate the arguments, as it does before any call."""
        server = self._runtime.running.server

        async def run(ctx: RequestContext) -> HandlerResult:
            subscriptions = self._runtime.running.subscriptions
            return await server.call_tool(
                name, dict(arguments), Context(request_context=ctx, mcp_server=server, subscriptions=subscriptions)
            )

        await before_the_body(CallToolRequestParams(name=name, arguments=dict(arguments)), request, run)

    async def _prepare_prompt(self, name: str, request: RequestContext, arguments: Json) -> None:
        prompts = await self._runtime.running.server.list_prompts()
        wanted = [each for prompt in prompts if prompt.name == name for each in prompt.arguments or () if each.required]
        if missing := [each.name for each in wanted if each.name not in arguments]:
            raise InvalidArgument(f"Prompt {name!r} needs {', '.join(missing)}; pass all that it needs.")

    async def _prepare_nothing(self, request: RequestContext, arguments: Json) -> None:
        """A URI that was found fits."""
