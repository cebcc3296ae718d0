"""`tools/call`: what becomes a task is handed in, the rest runs as ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

import msgspec
from mcp.server.context import CallNext, HandlerResult
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, CallToolResult, TextContent
from msgspec import UNSET, UnsetType

from coatcheck.dialects import v2025, v2026
from coatcheck.dialects.words import INVALID_PARAMS
from coatcheck.errors import QuotaExceeded, TaskNotFound
from coatcheck.payload import Payload, encode
from coatcheck.policy import Duration, Policy, duration
from coatcheck.server.access.gate import Gate
from coatcheck.server.bodies.plain_context import PlainContext
from coatcheck.server.calls.caller import HANDSHAKE, MODERN, Acquaintances, Caller, caller_of
from coatcheck.server.calls.offer import Offer, offer
from coatcheck.server.calls.outcome import outcome
from coatcheck.server.calls.record import key_of, read_request
from coatcheck.server.calls.stand_in import HandedIn, handing_in, running
from coatcheck.server.calls.toolbox import Toolbox
from coatcheck.server.calls.unasked import Unasked
from coatcheck.server.failures import as_protocol_errors, wrong_way
from coatcheck.server.hook import RequestContext, Verbatim
from coatcheck.server.policy import TaskPolicy
from coatcheck.server.runtime import Running, Runtime
from coatcheck.server.taskless.held import hold
from coatcheck.server.taskless.rounds import read_round
from coatcheck.server.waiting.live import Live
from coatcheck.task import NOTHING, Task

_ENDLESS = 10**15
"""Milliseconds beyond any lifetime; more would be too much for a float."""


class Calls:
    """What happens when a tool is called."""

    def __init__(self, runtime: Runtime, toolbox: Toolbox, acquaintances: Acquaintances, gate: Gate) -> None:
        self._runtime, self._toolbox, self._acquaintances, self._gate = runtime, toolbox, acquaintances, gate

    async def intercept(self, params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Serve one `tools/call`, as the table of offers has it, if its caller may make it."""
        await self._gate.admit_call(ctx, params.name, params.arguments or {})
        policies = self._toolbox.policies
        policy = policies.get(params.name)
        caller = caller_of(ctx, params) if policies else Caller.KNOWS_NO_TASKS
        match offer(policy, caller):
            case Offer.RUN:
                return await self._run(params, ctx, call_next)
            case Offer.TASK if policy:
                return await self._hand_in(policy, params, ctx, call_next)
            case Offer.HOLD if policy:
                return await self._hold(policy, params, ctx, call_next)
            case _:
                raise wrong_way(params.name, caller, ctx.protocol_version)

    async def submit(
        self,
        name: str,
        arguments: Payload,
        *,
        owner: str | None,
        meta: Payload,
        key: str | None = None,
        ttl: Duration | UnsetType | None = UNSET,
        made: Callable[[Task], None] | None = None,
        parent: Task | None = None,
    ) -> Task:
        """Make a task of a call, here if there is room; durable when this returns.

        `key`: what makes repeats of it one. `made` is told of it before it runs here. `parent`: the task whose work
        makes it.
        """
        served = self._runtime.running
        wishes: dict[str, Any] = {"owner": owner, "meta": meta, "idempotency_key": key, "parent": parent}
        try:
            task = await self._submit_to(served, name, arguments, ttl, made, wishes)
        except QuotaExceeded:
            served.desk.audit.denied(owner, "create", "too many unfinished tasks", tool=name)
            raise
        served.desk.audit.note("create", task)
        return task

    async def _submit_to(
        self,
        served: Running,
        name: str,
        arguments: Payload,
        ttl: Duration | UnsetType | None,
        made: Callable[[Task], None] | None,
        wishes: dict[str, Any],
    ) -> Task:
        if served.worker:
            return await served.worker.submit(name, arguments, ttl=ttl, made=made, **wishes)
        terms = self._toolbox.body(name).terms
        if ttl is not UNSET:
            terms = msgspec.structs.replace(terms, ttl=ttl)
        task = await served.engine.submit(name, arguments, terms=terms, **wishes)
        if made:
            made(task)
        return task

    async def _run(self, params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        if params.name in self._toolbox.plain or params.name in self._toolbox.policies:
            running.set(PlainContext(params.name, ctx))
        return await call_next(ctx)

    async def _hand_in(
        self, policy: TaskPolicy, params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext
    ) -> HandlerResult:
        """Make a task for a caller that knows what to do with it."""
        served = self._runtime.running
        with as_protocol_errors():
            ttl = wished_ttl(params, served.engine.policy) if ctx.protocol_version in HANDSHAKE else UNSET
        if answer := await before_the_body(params, ctx, call_next):
            return answer
        with as_protocol_errors():
            meta = read_request(ctx, params)
            task = await self._submit(params, ctx, meta, is_theirs=policy.patience is not None, ttl=ttl)
            if ctx.protocol_version in HANDSHAKE:
                self._acquaintances.saw_use(ctx)
                await served.news.begin(ctx, task)
                raise Verbatim(v2025.write_created(task))
            if policy.patience is not None:
                task = await self._settled(task, policy.patience)
                if task.status.is_terminal:
                    if task.idempotency_key is None:  # so nobody can ever ask for it
                        served.vigils.errands.run(served.engine.forget(task))
                    return outcome(task, ctx.protocol_version)
        return v2026.plain(v2026.write_created(task))

    async def _hold(
        self, policy: TaskPolicy, params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext
    ) -> HandlerResult:
        """Make a task for a caller that does not know tasks, and keep the call open."""
        served = self._runtime.running
        with served.vigils.lines.open(ctx) as live:
            try:
                return await self._held(policy, params, ctx, call_next, live)
            finally:
                if live.has_round and not live.is_answered and live.task:  # a question is no result for anyone else
                    served.vigils.errands.run(_forget(served, live.task))

    async def _held(
        self, policy: TaskPolicy, params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext, live: Live
    ) -> HandlerResult:
        served = self._runtime.running
        takes_tickets = served.has_ticket_tools and not self._acquaintances.has_tasks(ctx)
        with as_protocol_errors():
            task = await read_round(served, ctx, params)
        if task:
            live.attach(task)
        else:
            if answer := await before_the_body(params, ctx, call_next):
                return answer
            with as_protocol_errors():
                meta = read_request(ctx, params, is_held=takes_tickets)
                is_theirs = policy.cancel_on_disconnect is True
                try:
                    task = await self._submit(params, ctx, meta, is_theirs=is_theirs, made=live.attach)
                except QuotaExceeded:  # of which such a caller cannot know
                    return await self._run(params, ctx, call_next)
        return await hold(served, ctx, live, task, policy, takes_tickets=takes_tickets)

    async def _submit(
        self, params: CallToolRequestParams, ctx: RequestContext, meta: Payload, *, is_theirs: bool, **wishes: Any
    ) -> Task:
        """Make a task of a call. `is_theirs`: if the caller goes meanwhile, nobody wants it."""
        served = self._runtime.running
        arguments = encode(params.arguments) if params.arguments else NOTHING
        owner = served.identity.owner_of(ctx)
        key = key_of(ctx)
        submitting = self.submit(params.name, arguments, owner=owner, meta=meta, key=key, **wishes)
        if not is_theirs:
            return await submitting
        made = asyncio.ensure_future(submitting)
        try:
            return await asyncio.shield(made)
        except asyncio.CancelledError:
            made.add_done_callback(partial(_abandon, served))
            raise

    async def _settled(self, task: Task, patience: float) -> Task:
        """Wait for the task to end or to ask. If the caller goes meanwhile, nobody will ever ask for it."""
        served = self._runtime.running
        try:
            return await served.engine.settled(task, patience)
        except asyncio.CancelledError:
            served.abandon(task)
            raise


def _abandon(served: Running, made: asyncio.Future[Task]) -> None:
    if not made.cancelled() and made.exception() is None:
        served.abandon(made.result())


async def _forget(served: Running, task: Task) -> None:
    with suppress(TaskNotFound):
        await served.engine.forget(await served.engine.finished(task))


async def before_the_body(params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
    """Let the SDK do all it does before a tool's body. Returns its answer, or None where the body would have begun."""
    asks = ctx.protocol_version in MODERN
    handing_in.set(params.name)
    try:
        answer = await call_next(ctx if asks else replace(ctx, session=cast("ServerSession", Unasked(ctx.session))))
    except HandedIn:
        return None
    finally:
        handing_in.set(None)
    if params.task is not None and ctx.protocol_version in HANDSHAKE and isinstance(answer, CallToolResult):
        # Whoever asked for a task cannot be given a result instead.
        text = next((block.text for block in answer.content if isinstance(block, TextContent)), "")
        raise MCPError(INVALID_PARAMS, text or f"Tool {params.name!r} refused the call")
    return answer


def wished_ttl(params: CallToolRequestParams, policy: Policy) -> Duration | UnsetType | None:
    """Return the lifetime a client of 2025-11-25 asks for; without end is cut as any other wish.

    Raises:
        InvalidArgument: It is no lifetime.
    """
    if params.task is None or "ttl" not in params.task.model_fields_set:
        return UNSET
    if params.task.ttl is None:
        return None if policy.allows_unlimited_ttl else policy.max_ttl
    return duration("task.ttl", min(params.task.ttl, _ENDLESS) / 1000)
