"""The SDK's own `Context` for a tool body that outlives its request: its back-channel is the task."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.transport_context import TransportContext
from mcp_types import MISSING_REQUIRED_CLIENT_CAPABILITY, REQUEST_TIMEOUT, InputResponseRequestParams
from msgspec import UNSET

from coatcheck.answers import elicitation_answer
from coatcheck.context import TaskContext
from coatcheck.errors import InvalidArgument
from coatcheck.payload import decode
from coatcheck.server.record import Request

_ASKS_AS = "2025-11-25"
"""The version under which the SDK lets a server send requests, which here become a task's questions."""
_TRANSPORT = TransportContext(kind="task", can_send_request=True)
_CAPABILITIES = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
_ANSWERS: dict[str, Mapping[str, Any]] = {
    "sampling/createMessage": {"type": "object", "required": ["role", "content", "model"]},
    "roots/list": {"type": "object", "required": ["roots"], "properties": {"roots": {"type": "array"}}},
}


def background_context(
    server: MCPServer[Any], state: Any, context: TaskContext, request: Request, inputs: InputResponseRequestParams
) -> Context[Any, Any]:
    """Return a `Context` under which the SDK runs a tool as in the request that made the task."""
    channel = TaskChannel.of(context, request)
    connection = Connection.from_envelope(
        _ASKS_AS, decode(request.client_info), decode(request.capabilities), outbound=channel
    )
    meta = decode(request.meta)
    return Context(
        request_context=ServerRequestContext(
            session=ServerSession(channel, connection),
            lifespan_context=state,
            protocol_version=request.protocol_version,
            method="tools/call",
            params={"name": context.task.call.tool},
            request_id=context.task.id,
            meta=meta,
        ),
        mcp_server=server,
        input_params=inputs,
    )


class TaskChannel:
    """The SDK's `DispatchContext`, structurally: requests are put to the task's caller, progress goes to its row."""

    transport = _TRANSPORT
    can_send_request = True
    message_metadata = None

    def __init__(self, context: TaskContext, capabilities: Mapping[str, Any]) -> None:
        self._context, self._capabilities = context, capabilities

    @classmethod
    def of(cls, context: TaskContext, request: Request) -> Self:
        return cls(context, decode(request.capabilities) or {})

    @property
    def request_id(self) -> str:
        return self._context.task.id

    @property
    def cancel_requested(self) -> anyio.Event:
        """Never set: a task that is cancelled has its body cancelled."""
        return anyio.Event()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        self._require(method)
        try:
            async with asyncio.timeout((opts or {}).get("timeout")):
                return await self._context.ask(method, params or {}, _answer(method, params or {}))
        except TimeoutError:
            raise MCPError(REQUEST_TIMEOUT, f"Nobody answered {method} in time") from None

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Logs and the like have no place in a task."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        with suppress(InvalidArgument):  # in a plain call it would not have stopped the tool either
            await self._context.progress(progress, total, message)

    def _require(self, method: str) -> None:
        """A question its caller cannot answer would wait for days, so it is an error at once."""
        capability = _CAPABILITIES.get(method)
        if capability is None or self._capabilities.get(capability) is not None:
            return
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"The client did not declare the {capability} capability, which this tool needs",
            {"requiredCapabilities": {capability: {}}},
        )


def _answer(method: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if method == "elicitation/create":
        schema = params.get("requestedSchema")
        return elicitation_answer(schema) if schema is not None else {"type": "object", "required": ["action"]}
    return _ANSWERS.get(method)


def settled_inputs(request: Request) -> InputResponseRequestParams:
    """Return the answers that came with the call, for resolvers to find again what they asked before."""
    return inputs(decode(request.input_responses), None if request.request_state is UNSET else request.request_state)


def inputs(responses: dict[str, Any] | None, state: str | None) -> InputResponseRequestParams:
    return InputResponseRequestParams.model_validate({"inputResponses": responses, "requestState": state})
