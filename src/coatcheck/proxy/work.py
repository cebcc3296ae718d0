"""Calls of upstreams as tasks: a row for a call that is under way, or a call for a row; also after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

import msgspec
from mcp.shared.exceptions import MCPError
from msgspec import UNSET

from coatcheck.client.wire import Json, Params
from coatcheck.context import TaskContext
from coatcheck.dialects.words import EXPIRED
from coatcheck.errors import InvalidArgument, Refused, TaskNotFound, ToolFailed
from coatcheck.payload import decode, encode
from coatcheck.proxy.sessions.session import Session
from coatcheck.proxy.upstreams.call import UpstreamCall
from coatcheck.proxy.upstreams.upstream import Upstream
from coatcheck.server.bodies.background import TaskChannel
from coatcheck.server.calls.record import restore_request
from coatcheck.server.runtime import Running
from coatcheck.task import Progress, Status, Task
from coatcheck.tool import Outcome

UPSTREAM = "coatcheck/upstream"
"""Where in a task's `_meta` it is said which upstream it is carried out by."""
_ADOPTED = "upstream-task"


class Errand(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a row remembers of the upstream's side of its call."""

    server: str
    tool: str
    key: str
    """Under which the upstream knows the call, if it knows any."""
    session: str
    is_older: bool = False
    """Whether that session is of a client that speaks a generation before 2026-07-28."""
    is_under_way: bool = False
    """Whether the call was made before the row."""
    may_be_repeated: bool = False
    """Whether the upstream could then tell a repeat of it."""
    task_id: str | None = None
    """The upstream's own task."""
    lifetime: float | None = None
    """Seconds after which a call that has not ended is given up."""
    asks_by_tools: bool = False
    """Whether its questions are answered with the meta tools, and not by the task."""


def errand_of(task: Task) -> Errand | None:
    meta: Any = decode(restore_request(task.call.meta).meta)
    said = cast("Json", meta).get(UPSTREAM) if isinstance(meta, dict) else None
    return msgspec.convert(said, Errand) if said is not None else None


class Outlet:
    """Where a call's questions go: to its row, as soon as it has one."""

    def __init__(self) -> None:
        self._channel: asyncio.Future[TaskChannel] = asyncio.get_running_loop().create_future()

    async def ask(self, method: str, params: Json) -> Json:
        channel = await asyncio.shield(self._channel)
        return await channel.send_raw_request(method, params)

    def give(self, channel: TaskChannel) -> None:
        if self._channel.done():
            self._channel = asyncio.get_running_loop().create_future()
        self._channel.set_result(channel)


class RowCall(UpstreamCall):
    """A call whose questions are asked by its task."""

    def __init__(self, upstream: Upstream, tool: str, arguments: Mapping[str, Any], **said: Any) -> None:
        self.outlet = Outlet()
        super().__init__(upstream, tool, arguments, self.outlet.ask, **said)


SessionOf = Callable[[Errand, Mapping[str, Any]], Awaitable[Session]]
"""Finds the session of an errand; by what its client can do, should it have to be made anew."""


class Work:
    """What the worker does with the tasks of upstreams."""

    def __init__(self, running: Callable[[], Running], session_of: SessionOf) -> None:
        self._running, self._session_of = running, session_of
        self._under_way: dict[str, UpstreamCall] = {}
        """Calls that were made before their rows, by the rows' ids."""

    def put_under(self, call: UpstreamCall, task: Task) -> None:
        """Note that this task is a call that is under way already."""
        self._under_way[task.id] = call
        call.row_id = task.id

    async def __call__(self, context: TaskContext, arguments: Mapping[str, Any]) -> Outcome:
        errand = errand_of(context.task)
        if errand is None:
            raise ToolFailed("The task says nothing of the server that was to carry it out")
        call = self._under_way.pop(context.task.id, None) or await self._call(context, errand, arguments)
        self._attach(call, context, errand)
        try:
            async with asyncio.timeout(errand.lifetime):
                result = await call.result()
        except TimeoutError:
            await call.cancel()
            raise _expired(errand) from None
        except MCPError as error:
            raise ToolFailed(error.message, error.code, error.error.data) from error
        except asyncio.CancelledError:
            self._running().vigils.errands.run(self._let_go(context.task, call))
            raise
        return Outcome(encode(result), is_error=result.get("isError") is True)

    async def _call(self, context: TaskContext, errand: Errand, arguments: Mapping[str, Any]) -> UpstreamCall:
        """Return the call of a row: a new one, or what is left of one that was made by another process."""
        request = restore_request(context.task.call.meta)
        session = await self._session_of(errand, decode(request.capabilities) or {})
        try:
            upstream = await session.upstream_for_call(errand.server)
        except InvalidArgument as error:
            raise ToolFailed(f"{error} The task was left without it.") from error
        meta = passed_on(decode(request.meta))
        if errand.asks_by_tools and (witness := session.witness):
            ask = partial(witness.ask, errand.server, about=lambda: context.task.id)
            call = UpstreamCall(upstream, errand.tool, arguments, ask, key=errand.key, meta=meta)
            witness.watch(context.task)
        else:
            call = RowCall(upstream, errand.tool, arguments, key=errand.key, meta=meta)
        adopted: str | None = errand.task_id or decode(await context.recall(_ADOPTED) or UNSET)
        if adopted:
            call.adopt(adopted)
        elif errand.is_under_way or context.task.attempt > 1:
            call.repeat(is_worth_waiting=errand.may_be_repeated)
        else:
            call.start()
        return call

    def _attach(self, call: UpstreamCall, context: TaskContext, errand: Errand) -> None:
        """Let what the call asks and tells go to its row."""
        running = self._running()
        channel = TaskChannel(context, running.vigils.lines)
        call.passes_rounds = False
        if isinstance(call, RowCall):
            call.outlet.give(channel)

        def progressed(progress: Progress | None, message: str | None) -> None:
            running.vigils.errands.run(_progress(channel, context, progress, message))

        def adopted(task_id: str) -> None:
            running.vigils.errands.run(_record(context, task_id))

        def noticed(method: str, params: Params) -> None:
            running.vigils.errands.run(running.vigils.lines.notify(context.task.id, method, params, own_stream=True))

        call.on_progress, call.on_adopted, call.on_notice = progressed, adopted, noticed
        progressed(*call.told)
        if call.task_id and errand.task_id is None:
            adopted(call.task_id)

    async def _let_go(self, task: Task, call: UpstreamCall) -> None:
        """Stop a call whose task was cancelled; leave it alone if only this process, or its turn, comes to an end."""
        engine = self._running().engine
        try:
            is_unwanted = (await engine.get(task.id, task.owner)).status is Status.CANCELLED
        except TaskNotFound:
            is_unwanted = True
        await (call.cancel() if is_unwanted else _drop(call))


async def _drop(call: UpstreamCall) -> None:
    call.drop()


async def _progress(channel: TaskChannel, context: TaskContext, progress: Progress | None, message: str | None) -> None:
    with suppress(Refused, TaskNotFound, InvalidArgument):
        if progress:
            await channel.progress(progress.done, progress.total, message)
        elif message:
            await context.note(message)


async def _record(context: TaskContext, task_id: str) -> None:
    with suppress(Refused, TaskNotFound):
        if await context.recall(_ADOPTED) is None:
            await context.record(_ADOPTED, task_id)


def passed_on(meta: Any) -> Json:
    """Return what of a caller's `_meta` is for the upstream."""
    if not isinstance(meta, dict):
        return {}
    return {name: value for name, value in cast("Json", meta).items() if name not in (UPSTREAM, "progressToken")}


def _expired(errand: Errand) -> ToolFailed:
    return ToolFailed(
        f"{errand.tool} had not ended after {errand.lifetime:g} seconds, the lifetime of its task", EXPIRED
    )
