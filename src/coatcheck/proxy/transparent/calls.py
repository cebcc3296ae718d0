"""`tools/call` of a server's tool: answered with its result if that comes soon, else with a task.

There is no row before one is needed, so a quick call is as quick as can be.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import validate_mcp_param_headers
from mcp_types import CallToolRequestParams
from mcp_types import methods as wire_methods

from coatcheck.client.wire import Params
from coatcheck.dialects import v2025, v2026
from coatcheck.errors import CoatcheckError, QuotaExceeded, TooLarge
from coatcheck.proxy.quick.handover import take_over
from coatcheck.proxy.tasking import Incoming, Tasking
from coatcheck.proxy.upstreams.upstream import Upstream
from coatcheck.proxy.work import RowCall
from coatcheck.server.calls.caller import Caller, caller_of
from coatcheck.server.calls.calls import wished_ttl
from coatcheck.server.calls.outcome import outcome
from coatcheck.server.calls.record import key_of
from coatcheck.server.failures import as_protocol_errors
from coatcheck.server.hook import RequestContext, Verbatim
from coatcheck.server.taskless.held import hold
from coatcheck.server.taskless.rounds import read_round
from coatcheck.server.waiting.errands import InOrder
from coatcheck.server.waiting.live import Live, notify_of_log
from coatcheck.task import Progress, Task

_LEAST_SECONDS = 0.001
_EARLY_SECONDS = 5.0
"""How long a client without tasks is left without a sign of life before a row, and a heartbeat, begin."""


class Calls:
    def __init__(self, tasking: Tasking) -> None:
        self._tasking = tasking

    async def call(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Serve one `tools/call`, if it is of a server's tool."""
        name = (ctx.params or {}).get("name")
        found = self._tasking.find(name) if isinstance(name, str) else None
        if found is None:
            return await call_next(ctx)
        wire_methods.validate_client_request("tools/call", ctx.protocol_version, ctx.params)
        params = CallToolRequestParams.model_validate(ctx.params, by_name=False)
        await self._tasking.admit(ctx, *found, params.arguments or {})
        incoming = Incoming(ctx, params, await self._tasking.sessions.of(ctx), *found)
        self._tasking.met(ctx, incoming.session)
        with incoming.session.used():
            return await self._served(incoming)

    async def _served(self, incoming: Incoming) -> HandlerResult:
        ctx, params = incoming.ctx, incoming.params
        caller = caller_of(ctx, params)
        with as_protocol_errors():
            if task := await read_round(self._tasking.running, ctx, params):
                return await self._held(incoming, lambda live: _attached(live, task))
            if caller is Caller.ASKS_FOR_TASK or key_of(ctx):
                return await self._as_task(incoming, caller)
        return await self._as_call(incoming, takes_tasks=caller is Caller.ACCEPTS_TASKS)

    async def _as_call(self, incoming: Incoming, *, takes_tasks: bool) -> HandlerResult:
        """Make the call, and a row only if it takes long or asks something."""
        patience, loop = self._tasking.policy.patience or math.inf, asyncio.get_running_loop()
        began, said = loop.time(), InOrder()
        call = await self._started(incoming, said)
        try:
            early = patience if takes_tasks else min(patience, _EARLY_SECONDS)
            has_ended = await call.settled(early, self._tasking.running.streams_end)
        except asyncio.CancelledError:
            self._abandoned(incoming, call, takes_tasks)
            raise
        await said.settle()  # or an answer would overtake what came before it
        if has_ended:
            return self._tasking.framed(await call.result(), incoming.ctx.protocol_version)
        promote = partial(self._tasking.promote, incoming, call)
        with as_protocol_errors():
            try:
                if takes_tasks:
                    return v2026.plain(v2026.write_created(await promote()))
                left = max(patience - (loop.time() - began), _LEAST_SECONDS)
                return await self._held(incoming, lambda live: promote(is_held=True, made=live.attach), left)
            except (QuotaExceeded, TooLarge):  # then it is a plain call, however long it takes
                return self._tasking.framed(await call.result(), incoming.ctx.protocol_version)

    async def _as_task(self, incoming: Incoming, caller: Caller) -> HandlerResult:
        """Make a row, whose call is made by the worker: for those who ask for a task, or may repeat the call."""
        tasking, served, ctx = self._tasking, self._tasking.running, incoming.ctx
        if caller is Caller.KNOWS_NO_TASKS:
            hand_in = partial(tasking.hand_in, incoming, is_held=True)
            return await self._held(incoming, lambda live: hand_in(made=live.attach))
        if caller is Caller.ASKS_FOR_TASK:
            task = await tasking.hand_in(incoming, ttl=wished_ttl(incoming.params, served.engine.policy))
            tasking.acquaintances.saw_use(ctx)
            await served.news.begin(ctx, task)
            raise Verbatim(v2025.write_created(task))
        task = await served.engine.settled(await tasking.hand_in(incoming), tasking.policy.patience or math.inf)
        if task.status.is_terminal:
            return outcome(task, ctx.protocol_version)
        return v2026.plain(v2026.write_created(task))

    async def _started(self, incoming: Incoming, said: InOrder) -> RowCall:
        ctx, call = incoming.ctx, take_over(incoming)
        upstream = call.upstream if call else await incoming.session.upstream_for_call(incoming.server)
        if call is None and ctx.request is not None:
            await _check_headers(ctx.request.headers, upstream, incoming)
        is_new = call is None
        call = call or RowCall(
            upstream, incoming.tool, incoming.params.arguments or {}, meta=incoming.meta, rounds=incoming.rounds
        )

        def progressed(progress: Progress | None, message: str | None) -> None:
            if progress:
                said.say(ctx.session.report_progress(progress.done, progress.total, message))

        def noticed(method: str, params: Params) -> None:
            said.say(notify_of_log(ctx, method, params))

        call.on_progress, call.on_notice = progressed, noticed
        if is_new:
            call.start()
        return call

    async def _held(
        self, incoming: Incoming, make: Callable[[Live], Awaitable[Task]], seconds: float | None = None
    ) -> HandlerResult:
        """Keep the call of a client without tasks open while its task runs, or for so many seconds."""
        served, policy = self._tasking.running, self._tasking.policy
        if seconds is not None:
            policy = replace(policy, promote_after=seconds)
        with served.vigils.lines.open(incoming.ctx) as live:
            task = await make(live)
            return await hold(served, incoming.ctx, live, task, policy, takes_tickets=self._takes_tickets(incoming))

    def _takes_tickets(self, incoming: Incoming) -> bool:
        return self._tasking.running.has_ticket_tools and not self._tasking.acquaintances.has_tasks(incoming.ctx)

    def _abandoned(self, incoming: Incoming, call: RowCall, takes_tasks: bool) -> None:
        """Its caller has gone. One that takes tickets may ask for it later; nobody else knows of it."""
        if not takes_tasks and self._takes_tickets(incoming):
            incoming.session.run(self._tasking.promote(incoming, call, is_held=True))
        else:
            incoming.session.run(call.cancel())


async def _check_headers(headers: Mapping[str, str], upstream: Upstream, incoming: Incoming) -> None:
    """Refuse a call whose headers say other than its arguments, as its server would have."""
    with suppress(CoatcheckError):  # of which the call itself will tell
        info = (await upstream.tools()).get(incoming.tool)
        if info and info.headers:
            arguments = incoming.params.arguments or {}
            rejection = validate_mcp_param_headers(info.input_schema, arguments, headers)
            if rejection:
                raise MCPError(rejection.code, rejection.message, rejection.data)


async def _attached(live: Live, task: Task) -> Task:
    live.attach(task)
    return task
