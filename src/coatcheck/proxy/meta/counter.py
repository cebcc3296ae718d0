"""Where the meta tools are served: who calls, and what every answer carries beside the tool's own."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import ToolAnnotations

from coatcheck.client.wire import Json
from coatcheck.errors import CoatcheckError
from coatcheck.payload import encode
from coatcheck.proxy.access.guard import Guard
from coatcheck.proxy.activity.events import Event
from coatcheck.proxy.meta.activity import Activity
from coatcheck.proxy.meta.pending import briefs
from coatcheck.proxy.meta.refusals import INVALID_ARGUMENT, NOT_ALLOWED, SERVER_NOT_FOUND, ToolRefusal, refused
from coatcheck.proxy.servers import Servers
from coatcheck.proxy.sessions.session import Session
from coatcheck.proxy.settings import ProxySettings
from coatcheck.proxy.tasking import Tasking
from coatcheck.proxy.upstreams.upstream import Upstream
from coatcheck.server.hook import RequestContext, Verbatim
from coatcheck.server.waiting.heartbeat import Heartbeat
from coatcheck.task import Task

logger = logging.getLogger("coatcheck")
BEAT_SECONDS = 15.0
"""How long whoever waits is left without a sign of life."""
Ctx = Context[Any, Any]
Tool = Callable[..., Awaitable["Json | Blocks | Whole"]]
"""What a meta tool returns: what to say as JSON, several blocks, or a result as it is."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The content of a result: sentences as they are, objects as JSON."""

    parts: tuple[str | Json, ...]


@dataclass(frozen=True, slots=True)
class Whole:
    """A result. `is_complete`: it says all there is to say, and nothing is added."""

    result: Json
    is_complete: bool = False


@dataclass(frozen=True, slots=True)
class Caller:
    ctx: RequestContext
    owner: str | None
    session: Session
    activity: Activity
    guard: Guard

    async def upstream(self, server: str) -> Upstream:
        """Return a server the caller may use.

        Raises:
            ToolRefusal: There is none of that name.
            Forbidden: It is not for this caller.
        """
        if server not in self.guard.servers:
            there_is = ", ".join([upstream.name for upstream in await self.upstreams()]) or "none"
            raise ToolRefusal(SERVER_NOT_FOUND, f"There is no server {server!r}; there is {there_is}.")
        await self.guard.admit(server)
        return self.session.upstream(server)

    async def upstreams(self, server: str | None = None) -> list[Upstream]:
        """Return all servers the caller may use, or the one."""
        if server is not None:
            return [await self.upstream(server)]
        return [upstream for upstream in self.session.upstreams() if await self.guard.shows(upstream.name)]

    def elicitations(self, server: str | None = None, task_id: str | None = None) -> list[Any]:
        """Return what is asked, by a server, or for a task: with all that may be of any."""
        asked = self.activity.pending.list("elicitation/create", server)
        return briefs([each for each in asked if task_id is None or each.task_id in (None, task_id)])

    def samplings(self, server: str | None = None) -> list[Any]:
        return briefs(self.activity.pending.list("sampling/createMessage", server))


class Counter:
    def __init__(self, tasking: Tasking, servers: Servers, settings: ProxySettings) -> None:
        self.tasking, self.servers, self.settings = tasking, servers, settings
        self.names: set[str] = set()
        """Those of all meta tools, as they are added."""

    async def caller(self, ctx: Ctx) -> Caller:
        return await self._caller(ctx.request_context)

    async def _caller(self, request: RequestContext) -> Caller:
        identity = self.tasking.running.identity
        if not self.settings.is_for_one and not identity.tells_apart(request):
            raise ToolRefusal(
                NOT_ALLOWED,
                "This proxy cannot tell you from its other callers, so it has no state to show you; "
                "call with a token that says who you are.",
            )
        session = await self.tasking.sessions.of(request)
        activity = cast("Activity", session.witness)
        return Caller(request, identity.owner_of(request), session, activity, self.tasking.guard)

    async def awaited(self, caller: Caller, task: Task, seconds: float) -> Task:
        """Return a task once it has ended, or as it is after so many seconds; the caller is told that all is well."""
        engine, loop = self.tasking.running.engine, asyncio.get_running_loop()
        heartbeat, deadline = Heartbeat(caller.ctx, BEAT_SECONDS), loop.time() + seconds
        while not task.status.is_terminal and (left := deadline - loop.time()) > 0:
            task = await engine.finished(task, min(left, heartbeat.seconds_left()))
            await heartbeat.saw(task)
        return task

    async def woken(self, caller: Caller, seconds: float) -> list[Event]:
        """Return the events that end a wait of so many seconds."""
        loop = asyncio.get_running_loop()
        heartbeat, deadline = Heartbeat(caller.ctx, BEAT_SECONDS), loop.time() + seconds
        while (left := deadline - loop.time()) > 0:
            if woken_by := await caller.activity.events.wait(min(left, heartbeat.seconds_left())):
                return woken_by
            await heartbeat.beat()
        return []

    def add(self, server: MCPServer[Any], tool: Tool, *, is_read_only: bool) -> None:
        self.names.add(tool.__name__)
        hints = ToolAnnotations(read_only_hint=is_read_only, open_world_hint=not is_read_only)
        MCPServer.add_tool(server, self._served(tool), annotations=hints, structured_output=False)

    async def refused_by_sdk(self, ctx: RequestContext, said: Json) -> Json:
        """Return a refusal of the SDK's as one of ours: it does not call a tool with what its schema forbids."""
        text = " ".join(str(each.get("text", "")) for each in said.get("content", ()))
        result = refused(ToolRefusal(INVALID_ARGUMENT, text))
        with suppress(ToolRefusal):
            result = with_news(result, await self._caller(ctx))
        return self.tasking.framed(result, ctx.protocol_version)

    def _served(self, tool: Tool) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(tool)
        async def served(*args: Any, **kwargs: Any) -> Any:
            ctx: Ctx = kwargs["ctx"]
            version = ctx.request_context.protocol_version
            try:
                caller = await self.caller(ctx)
            except ToolRefusal as error:
                raise Verbatim(self.tasking.framed(refused(error), version)) from error
            try:
                with caller.session.used(), caller.guard.refusing(ctx.request_context):
                    answer = _written(await tool(*args, **kwargs))
            except Verbatim:
                raise
            except (CoatcheckError, MCPError) as error:
                answer = Whole(refused(error))
            except Exception as error:
                logger.exception("A meta tool failed")
                answer = Whole(refused(error))
            result = answer.result if answer.is_complete else with_news(answer.result, caller)
            raise Verbatim(self.tasking.framed(result, version))

        return served


def with_news(result: Json, caller: Caller) -> Json:
    """Return a result with what has happened since the last one, and what waits for the client; if anything."""
    added: list[Json] = []
    if events := caller.activity.events.take():
        added.append({"events_since_last_response": [event.to_json() for event in events]})
    elicitations, samplings = caller.elicitations(), caller.samplings()
    if elicitations or samplings:
        added.append({"pending_client_action": {"elicitations": elicitations, "sampling_requests": samplings}})
    if not added:
        return result
    return {**result, "content": [*result.get("content", ()), *map(block, added)]}


def block(said: Mapping[str, Any] | str) -> Json:
    text = said if isinstance(said, str) else bytes(encode(dict(said))).decode()
    return {"type": "text", "text": text}


def _written(answer: Json | Blocks | Whole) -> Whole:
    if isinstance(answer, Whole):
        return answer
    parts = answer.parts if isinstance(answer, Blocks) else (answer,)
    return Whole({"content": [block(part) for part in parts], "isError": False})
