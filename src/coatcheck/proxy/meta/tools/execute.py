"""`execute_tool`: a call that becomes a task when it takes too long."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from mcp_types import CallToolRequestParams
from pydantic import Field

from coatcheck.client.wire import Json
from coatcheck.errors import TooLarge
from coatcheck.proxy.activity.events import timestamp
from coatcheck.proxy.meta.counter import BEAT_SECONDS, Blocks, Caller, Counter, Ctx, Whole
from coatcheck.proxy.meta.records import brief, working
from coatcheck.proxy.meta.refusals import SERVER_RECONNECTING, TOO_MANY_TASKS, ToolRefusal
from coatcheck.proxy.states import task_status
from coatcheck.proxy.tasking import Incoming
from coatcheck.proxy.upstreams.call import UpstreamCall
from coatcheck.proxy.upstreams.link import State
from coatcheck.server.waiting.errands import InOrder
from coatcheck.server.waiting.heartbeat import Heartbeat
from coatcheck.task import Progress, Task


class Execute:
    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    async def execute_tool(
        self,
        ctx: Ctx,
        server: Annotated[str, Field(description="The server that has the tool")],
        tool: Annotated[str, Field(description="The tool's name, as list_tools shows it")],
        args: Annotated[dict[str, Any] | None, Field(description="The tool's arguments")] = None,
        timeout_ms: Annotated[
            int, Field(ge=0, description="How long to wait before the call goes on as a task")
        ] = 120_000,
    ) -> Whole | Blocks:
        """Call a tool of a server. If it takes longer than timeout_ms, the call goes on and you get a task for it."""
        caller = await self._counter.caller(ctx)
        call = await self._started(caller, server, tool, args or {})
        incoming = self._incoming(caller, server, tool, args or {})
        caller.activity.under_way += 1
        try:
            if await _waited(caller, call, timeout_ms / 1000):
                return Whole(await call.result())
        except asyncio.CancelledError:  # whoever comes back finds it among the tasks
            caller.session.run(self._promoted(caller, incoming, call))
            raise
        finally:
            caller.activity.under_way -= 1
        return await self._promotion(caller, incoming, await self._promoted(caller, incoming, call), timeout_ms)

    async def _started(self, caller: Caller, server: str, tool: str, args: Json) -> UpstreamCall:
        upstream, most = await caller.upstream(server), self._counter.settings.max_tasks
        await self._counter.tasking.admit(caller.ctx, server, tool, args)
        if upstream.state is State.RECONNECTING:
            error = upstream.unreachable()
            raise ToolRefusal(SERVER_RECONNECTING, str(error), **error.when)
        if caller.activity.unfinished + caller.activity.under_way >= most:
            raise ToolRefusal(
                TOO_MANY_TASKS, f"There are already {most} unfinished tasks; wait for one, or cancel one.", limit=most
            )
        call: UpstreamCall

        async def ask(method: str, params: Json) -> Json:
            about = (lambda: call.row_id) if call.task_id else None
            return await caller.activity.ask(server, method, params, about=about)

        call = UpstreamCall(upstream, tool, args, ask)
        call.start()
        return call

    def _incoming(self, caller: Caller, server: str, tool: str, args: Json) -> Incoming:
        params = CallToolRequestParams(name=tool, arguments=args)
        return Incoming(caller.ctx, params, caller.session, server, tool)

    async def _promoted(self, caller: Caller, incoming: Incoming, call: UpstreamCall) -> Task:
        settings = self._counter.settings
        lifetime = settings.ttl.total_seconds()
        try:
            task = await self._counter.tasking.promote(
                incoming,
                call,
                is_held=True,
                ttl=lifetime + settings.retention.total_seconds(),
                remembers={"lifetime": lifetime, "asks_by_tools": True},
            )
        except TooLarge:  # so nobody could ever ask for its result
            await call.cancel()
            raise
        caller.activity.created(task)
        return task

    async def _promotion(self, caller: Caller, incoming: Incoming, task: Task, timeout_ms: int) -> Blocks:
        server, tool = incoming.server, incoming.tool
        found = await working(self._counter.tasking.running.engine, caller.owner, server)
        sentence = (
            f"{tool} has not ended after {timeout_ms} ms and goes on as task {task.id}. "
            "Nothing is lost: get its result with get_task_result, or wait for news with await_activity."
        )
        promoted: Json = {
            "task_id": task.id,
            "status": task_status(task),
            "created_at": timestamp(task.created_at),
            "server": server,
            "tool": tool,
        }
        pending: Json = {
            "tasks": [brief(each, errand) for each, errand in found],
            "elicitations_for_server": caller.elicitations(server),
        }
        return Blocks((sentence, {"proxy_task": promoted, "pending_on_server": pending}))


async def _waited(caller: Caller, call: UpstreamCall, seconds: float) -> bool:
    """Wait for a call, passing on how far it is, or that it is alive. Returns whether it has ended."""
    heartbeat, loop, said = Heartbeat(caller.ctx, BEAT_SECONDS), asyncio.get_running_loop(), InOrder()

    def progressed(progress: Progress | None, message: str | None) -> None:
        if progress:
            said.say(heartbeat.progress(progress.done, progress.total, message))

    call.on_progress = progressed
    deadline = loop.time() + seconds
    while not await call.ended_within(min(max(deadline - loop.time(), 0.0), heartbeat.seconds_left())):
        if loop.time() >= deadline:
            return False
        await heartbeat.beat()
    await said.settle()
    return True
