"""Tasks of upstreams' tools, as both faces make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import msgspec
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    CallToolRequestParams,
)
from msgspec import structs

from coatcheck.client.generations import new_key
from coatcheck.client.wire import Json
from coatcheck.dialects.words import IDEMPOTENCY_KEY
from coatcheck.payload import encode
from coatcheck.proxy.access.guard import Guard
from coatcheck.proxy.naming import Naming
from coatcheck.proxy.servers import Servers
from coatcheck.proxy.sessions.session import Session
from coatcheck.proxy.sessions.sessions import Sessions
from coatcheck.proxy.upstreams.call import UpstreamCall
from coatcheck.proxy.work import UPSTREAM, Errand, Work, passed_on
from coatcheck.server.calls.caller import MODERN, Acquaintances
from coatcheck.server.calls.record import key_of, read_request
from coatcheck.server.hook import RequestContext
from coatcheck.server.parts import Parts
from coatcheck.server.policy import TaskPolicy
from coatcheck.server.runtime import Running
from coatcheck.task import NOTHING, Task
from coatcheck.tool import Tool

_ENVELOPE = (CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY, IDEMPOTENCY_KEY)
_MOST_OLDER = 10_000
_ROUNDS = ("inputResponses", "requestState")
Made = Callable[[Task], None]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A call as it came in, and where it goes."""

    ctx: RequestContext
    params: CallToolRequestParams
    session: Session
    server: str
    tool: str

    @property
    def meta(self) -> Json:
        """What the caller said of the call, and not of itself."""
        return without_envelope((self.ctx.params or {}).get("_meta"))

    @property
    def rounds(self) -> Json | None:
        """What the caller has of earlier rounds of this call; None: it is of a generation that knows no rounds."""
        if self.ctx.protocol_version not in MODERN:
            return None
        return {word: value for word, value in (self.ctx.params or {}).items() if word in _ROUNDS}


class Tasking:
    def __init__(
        self,
        parts: Parts,
        sessions: Sessions,
        servers: Servers,
        naming: Naming,
        work: Work,
        policy: TaskPolicy,
        guard: Guard,
        info: Callable[[], Json],
    ) -> None:
        """`info`: what the proxy says of itself."""
        self._parts, self.sessions, self._servers, self.naming = parts, sessions, servers, naming
        self._work, self.policy, self.guard = work, policy, guard
        self._info = info
        self._known: set[str] = set()
        self.older: dict[str, Session] = {}
        """Sessions of clients before 2026-07-28 over HTTP, by the ids they have there."""

    @cached_property
    def _own_info(self) -> Json:
        return self._info()

    @property
    def running(self) -> Running:
        return self._parts.runtime.running

    @property
    def acquaintances(self) -> Acquaintances:
        return self._parts.acquaintances

    def met(self, ctx: RequestContext, session: Session) -> None:
        """Remember a client by the session it has over HTTP."""
        if ctx.request is None or ctx.protocol_version in MODERN or ctx.session.client_params is None:
            return
        http_session: str | None = ctx.request.headers.get(MCP_SESSION_ID_HEADER)
        if http_session:
            if len(self.older) >= _MOST_OLDER:
                self.older.clear()
            self.older[http_session] = session

    def framed(self, result: Json, version: str) -> Json:
        """Return a result in the words of a generation of the protocol, as the SDK would."""
        if version not in MODERN:
            return result
        meta: Any = result.get("_meta")
        if meta is not None and not isinstance(meta, dict):
            return {"resultType": "complete", **result}
        return {
            "resultType": "complete",
            **result,
            "_meta": {**cast("Json", meta or {}), SERVER_INFO_META_KEY: self._own_info},
        }

    def find(self, name: str) -> tuple[str, str] | None:
        """Return the server and the tool that are shown under a name."""
        return self.naming.find(name, self._servers)

    async def admit(self, ctx: RequestContext, server: str, tool: str, arguments: Json) -> None:
        """Let a call pass before its server hears of it.

        Raises:
            MCPError: Its caller may not make it, or not so soon.
        """
        await self.guard.admit_call(ctx, server, tool, arguments, self.running.identity)

    def find_free(self, name: str) -> tuple[str, str] | None:
        """Return the same of a tool that all may call, as often as they like."""
        found = self.find(name)
        return found if found and self.guard.is_free(*found) else None

    def know(self, name: str) -> None:
        """Have the worker carry out tasks of this tool."""
        worker = self.running.worker
        if worker and name not in self._known:
            self._known.add(name)
            worker.add(Tool(name=name, work=self._work, terms=self.policy.terms()), replace=True)

    async def promote(self, incoming: Incoming, call: UpstreamCall, *, made: Made | None = None, **wishes: Any) -> Task:
        """Make a task of a call that is under way. `wishes` are those of `hand_in`.

        Raises:
            QuotaExceeded: There are too many already; the call goes on.
            TooLarge: Its arguments are too large for a row; the call goes on.
        """

        def begun(task: Task) -> None:
            self._work.put_under(call, task)
            if made:
                made(task)

        errand = Errand(
            server=incoming.server,
            tool=call.tool,
            key=call.key,
            session=incoming.session.key,
            is_older=incoming.session.is_older,
            is_under_way=True,
            may_be_repeated=call.may_be_repeated,
            task_id=call.task_id,
        )
        return await self._submit(incoming, errand, made=begun, **wishes)

    async def hand_in(self, incoming: Incoming, **wishes: Any) -> Task:
        """Make a task of a call that is yet to be made; under a key, it may be an earlier one.

        `wishes`: `is_held` by a client that knows no tasks; `made`, told of the task before it runs; its `ttl`; and
        what else its row `remembers`.
        """
        session = incoming.session
        errand = Errand(
            server=incoming.server, tool=incoming.tool, key=new_key(), session=session.key, is_older=session.is_older
        )
        return await self._submit(incoming, errand, key=key_of(incoming.ctx), **wishes)

    async def _submit(
        self, incoming: Incoming, errand: Errand, *, is_held: bool = False, remembers: Json | None = None, **wishes: Any
    ) -> Task:
        ctx, params = incoming.ctx, incoming.params
        name = self.naming.name(incoming.server, incoming.tool)
        self.know(name)
        said: Json = msgspec.to_builtins(structs.replace(errand, **(remembers or {})))
        meta = read_request(ctx, params, is_held=is_held, more={UPSTREAM: said})
        arguments = encode(params.arguments) if params.arguments else NOTHING
        owner = self.running.identity.owner_of(ctx)
        return await self._parts.calls.submit(name, arguments, owner=owner, meta=meta, **wishes)


def without_envelope(meta: Any) -> Json:
    """Return what a caller said of a call, and not of itself."""
    return {name: value for name, value in passed_on(meta).items() if name not in _ENVELOPE}
