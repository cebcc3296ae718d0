"""On whose behalf your own code calls: that of a task, of a request that is being served, or nobody's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.session import ServerSession
from mcp_types import CallToolRequestParams
from msgspec import UNSET

from coatcheck.context import TaskContext
from coatcheck.dialects import v2025
from coatcheck.payload import Payload, encode
from coatcheck.server.bodies.background import TaskRequest, background_context
from coatcheck.server.bodies.plain_context import PlainContext
from coatcheck.server.calls.record import read_request, restore_request, write_request
from coatcheck.server.hook import RequestContext
from coatcheck.server.local.nobody import Nobody
from coatcheck.server.runtime import Running

AnyContext = Context[Any, Any] | TaskContext
"""What a body may have been given: the SDK's context, or ours."""


@dataclass(frozen=True, slots=True)
class Asker:
    request: RequestContext | None = None
    """The request, or that of the task, which the call comes from."""
    task: TaskContext | None = None
    """The task whose work makes the call."""

    @property
    def is_nobody(self) -> bool:
        return self.request is None

    def owner(self, running: Running) -> str | None:
        """Return for whom it is done: whoever called what makes the call."""
        if self.task:
            return self.task.task.owner
        return None if self.request is None else running.identity.owner_of(self.request)

    def asks(self, running: Running, method: str, params: Mapping[str, Any]) -> RequestContext:
        """Return the request that the call would be."""
        if self.request is None:
            return unsent(running.state, method, params)
        meta = (self.request.params or {}).get("_meta")
        return replace(self.request, method=method, params={**params, **({"_meta": meta} if meta else {})})

    def remembers(self, request: RequestContext) -> Payload:
        """Return what the task remembers of who called. What it asks is kept until somebody answers."""
        if self.task:
            said = restore_request(self.task.task.call.meta)
            return encode(msgspec.structs.replace(said, meta=UNSET, input_responses=UNSET, request_state=UNSET))
        if self.request is None:
            return write_request(v2025.VERSION, {}, is_held=True, is_nobodys=True)
        return read_request(request, CallToolRequestParams(name=""), is_held=True)


def unsent(state: Any, method: str, params: Mapping[str, Any]) -> RequestContext:
    """Return a request that no client sent."""
    return ServerRequestContext(
        session=ServerSession(Nobody(), Connection.from_envelope(v2025.VERSION, None, None)),
        lifespan_context=state,
        protocol_version=v2025.VERSION,
        method=method,
        params=params,
    )


def asker_of(running: Running, context: AnyContext | None) -> Asker:
    if isinstance(context, PlainContext):
        return Asker(context.request)
    task = task_of(context)
    if isinstance(context, Context):
        return Asker(_request_of(context), task)
    return Asker(background_context(running, task, None).request_context, task) if task else Asker()


def task_of(context: AnyContext | None) -> TaskContext | None:
    """Return the task whose body was given this, if it was."""
    if isinstance(context, Context):
        request = _request_of(context)
        return request.task if isinstance(request, TaskRequest) else None
    return None if isinstance(context, PlainContext) else context


def _request_of(context: Context[Any, Any]) -> RequestContext | None:
    try:
        return context.request_context
    except ValueError:  # one that nobody sent
        return None
