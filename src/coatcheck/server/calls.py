"""`tools/call`: what becomes a task is handed in, the rest runs as ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mcp.server.context import CallNext, HandlerResult
from mcp.server.mcpserver.tools import Tool as SDKTool
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import X_MCP_HEADER_KEY
from mcp_types import CallToolRequestParams

from coatcheck.context import TaskContext
from coatcheck.dialects.v2026 import EXTENSION, INTERNAL_ERROR, plain, write_created, write_error
from coatcheck.errors import CoatcheckError
from coatcheck.payload import Payload, decode, encode
from coatcheck.server.body import run_body
from coatcheck.server.failures import as_protocol_errors, missing_tasks
from coatcheck.server.identity import owner_of
from coatcheck.server.methods import VERSIONS, RequestContext
from coatcheck.server.offer import Caller, Offer, offer
from coatcheck.server.plain_context import PlainContext
from coatcheck.server.policy import TaskPolicy
from coatcheck.server.record import read_request
from coatcheck.server.runtime import Runtime
from coatcheck.server.stand_in import HandedIn, handing_in, running, stand_in, takes_context
from coatcheck.task import NOTHING, Status, Task
from coatcheck.tool import Outcome, Tool


@dataclass(frozen=True, slots=True)
class SimpleTool:
    """A tool that takes nothing from its caller but arguments."""

    validate: Callable[[dict[str, Any]], Any]
    takes_context: bool


class Calls:
    """The tools that may be tasks, and what happens when one is called."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.policies: dict[str, TaskPolicy] = {}
        self.simple: dict[str, SimpleTool] = {}

    def add(self, function: Callable[..., Any], name: str, policy: TaskPolicy) -> Callable[..., Any]:
        """Return what to register with the server under `name` in place of `function`."""
        self.remove(name)
        if policy.mode == "forbidden":
            return stand_in(function, name) if takes_context(function) else function
        self.policies[name] = policy
        if self._runtime.is_running and (worker := self._runtime.running.worker):
            worker.add(self.tool(name), replace=True)
        return stand_in(function, name)

    def remove(self, name: str) -> None:
        self.policies.pop(name, None)
        self.simple.pop(name, None)

    def note_simple(self, function: Callable[..., Any], name: str) -> None:
        """Remember how to validate a tool's arguments, if they are all it takes: then it can be handed in directly."""
        policy = self.policies.get(name)
        if policy is None or policy.patience is not None:
            return
        tool = SDKTool.from_function(function, name)
        if not tool.resolved_params and X_MCP_HEADER_KEY not in str(tool.parameters):
            self.simple[name] = SimpleTool(tool.fn_metadata.validate_arguments, tool.context_kwarg is not None)

    def tool(self, name: str) -> Tool:
        """Return a tool as the worker knows it."""
        policy = self.policies[name]

        def work(context: TaskContext, arguments: Mapping[str, Any]) -> Awaitable[Outcome]:
            simple = self.simple.get(name)
            return run_body(self._runtime.running, context, arguments, simple is None or simple.takes_context)

        return Tool(name=name, work=work, terms=policy.terms(), timeout=policy.limit)

    async def intercept(self, params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Serve one `tools/call`, as the table of offers has it."""
        policy = self.policies.get(params.name)
        if policy is None:
            return await call_next(ctx)
        match offer(policy, _caller(ctx)):
            case Offer.TASK:
                return await self._hand_in(policy, params, ctx, call_next)
            case Offer.REFUSE:
                raise missing_tasks(
                    f"Tool {params.name!r} runs as a task only, and the client did not declare {EXTENSION}"
                )
            case Offer.RUN:
                running.set(PlainContext(params.name, ctx.session.report_progress))
                return await call_next(ctx)

    async def _hand_in(
        self, policy: TaskPolicy, params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext
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
            arguments = encode(params.arguments) if params.arguments else NOTHING
            meta = read_request(ctx, params)
            task = await self.submit(params.name, arguments, owner=owner_of(ctx), meta=meta)
            if policy.patience is not None:
                task = await self._settled(task, policy.patience)
        if policy.patience is not None and task.status.is_terminal:
            return await self._direct(task)
        return plain(write_created(task))

    async def submit(self, name: str, arguments: Payload, *, owner: str | None, meta: Payload) -> Task:
        """Make a task of a call, here if there is room, and durable when this returns."""
        served = self._runtime.running
        if served.worker:
            return await served.worker.submit(name, arguments, owner=owner, meta=meta)
        terms = self.policies[name].terms()
        return await served.engine.submit(name, arguments, owner=owner, terms=terms, meta=meta)

    async def _settled(self, task: Task, patience: float) -> Task:
        """Wait for the task to end or to ask. If the caller goes meanwhile, nobody will ever ask for it."""
        engine = self._runtime.running.engine
        try:
            return await engine.settled(task, patience)
        except asyncio.CancelledError:
            with suppress(CoatcheckError):
                await asyncio.shield(engine.cancel(task.id, task.owner, "Its caller hung up before there was a task"))
            raise

    async def _direct(self, task: Task) -> HandlerResult:
        """Answer with a task's outcome as if it had never been one. Nobody knows its id, so it is forgotten."""
        with as_protocol_errors():
            await self._runtime.running.engine.forget(task)
        if task.status is Status.COMPLETED:
            return {"resultType": "complete", **decode(task.result)}
        if task.failure:
            error = write_error(task.failure)
            raise MCPError(error.code, error.message, decode(error.data))
        raise MCPError(INTERNAL_ERROR, "The call was cancelled by an operator")


def _caller(ctx: RequestContext) -> Caller:
    capabilities = ctx.session.client_capabilities if ctx.protocol_version in VERSIONS else None
    declared = capabilities.extensions if capabilities else None
    return Caller.ACCEPTS_TASKS if declared and EXTENSION in declared else Caller.KNOWS_NO_TASKS
