"""A call that is held open while its task runs: answered with the result if that comes in time, else with a ticket."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta

from mcp.server.context import HandlerResult

from coatcheck.server.calls.outcome import outcome
from coatcheck.server.failures import Stopping, as_protocol_errors
from coatcheck.server.hook import RequestContext
from coatcheck.server.policy import TaskPolicy
from coatcheck.server.runtime import Running
from coatcheck.server.taskless import rounds
from coatcheck.server.taskless.ticket import write_ticket
from coatcheck.server.waiting.live import Live
from coatcheck.task import Task

_QUICK = timedelta(seconds=5)
"""No caller gives up this early, so a result that came so soon has arrived."""


async def hold(
    running: Running, ctx: RequestContext, live: Live, task: Task, policy: TaskPolicy, *, takes_tickets: bool
) -> HandlerResult:
    """Answer a call of a client without tasks. One that could do nothing with a ticket waits as long as it takes."""
    with as_protocol_errors():
        try:
            task = await _kept(running, ctx, live, task, policy.longest_hold if takes_tickets else math.inf)
        except Stopping:
            if takes_tickets:
                return write_ticket(task)
            raise
        except asyncio.CancelledError:
            if policy.cancel_on_disconnect is True:
                running.abandon(task)
            raise
        if not task.status.is_terminal:
            return rounds.write_round(task) if rounds.can_be_asked(ctx, task) else write_ticket(task)
        live.is_answered = True
        is_quick = task.updated_at - task.created_at < _QUICK and task.idempotency_key is None
        if live.has_round or is_quick:
            running.vigils.errands.run(running.engine.forget(task))
    return outcome(task, ctx.protocol_version)


async def _kept(running: Running, ctx: RequestContext, live: Live, task: Task, seconds: float) -> Task:
    keep = running.vigils.keep
    task = await keep(ctx, task, knows_task=False, seconds=seconds, heartbeat=live.heartbeat)
    if live.has_round:  # what the tool asks is the answer, and on its way
        return await keep(ctx, task, knows_task=False, heartbeat=live.heartbeat)
    live.close()
    return task
