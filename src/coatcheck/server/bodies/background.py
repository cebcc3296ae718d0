"""The SDK's own `Context` for a tool body that outlives its request: its back-channel is the task."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.transport_context import TransportContext
from mcp_types import MISSING_REQUIRED_CLIENT_CAPABILITY, REQUEST_TIMEOUT, InputResponseRequestParams
from msgspec import UNSET

from coatcheck.answers import elicitation_answer
from coatcheck.context import TaskContext
from coatcheck.errors import InvalidArgument, NotAnswered
from coatcheck.payload import Payload, decode
from coatcheck.server.calls.record import Request, restore_request
from coatcheck.server.runtime import Running
from coatcheck.server.waiting.live import Lines
from coatcheck.server.waiting.peer import can_answer

_USUAL_BYTES = 4096
_ASKS_AS = "2025-11-25"
"""The version under which the SDK lets a server send requests, which here become a task's questions."""
_TRANSPORT = TransportContext(kind="task", can_send_request=True)
_CAPABILITIES = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
_ANSWERS: dict[str, Mapping[str, Any]] = {
    "sampling/createMessage": {"type": "object", "required": ["role", "content", "model"]},
    "roots/list": {"type": "object", "required": ["roots"], "properties": {"roots": {"type": "array"}}},
}
_ACTION = {
    "type": "object",
    "required": ["action"],
    "properties": {"action": {"enum": ["accept", "decline", "cancel"]}},
}
_NO_INPUTS = InputResponseRequestParams()


def background_context(
    running: Running, context: TaskContext, given: InputResponseRequestParams | None
) -> Context[Any, Any]:
    """Return a `Context` under which the SDK runs a tool as in the request that made the task.

    `given` are answers to what the tool asked by multi-round-trip in the task; None: those that came with the call.
    """
    request = restore_request(context.task.call.meta)
    channel = TaskChannel(context, running.vigils.lines)
    return Context(
        request_context=TaskRequest(
            task=context,
            session=ServerSession(channel, TaskConnection(channel, client_of(request))),
            lifespan_context=running.state,
            protocol_version=request.protocol_version,
            method="tools/call",
            request_id=context.task.id,
            request=running.vigils.lines.request_of(context.task.id),
            meta=decode(request.meta),
        ),
        mcp_server=running.server,
        subscriptions=running.subscriptions,
        input_params=given or _settled(request),
    )


def client_of(request: Request) -> Connection:
    """Return who called, as the SDK reads it: made once for all tasks of a client, which says the same each time."""
    info, capabilities = bytes(request.client_info or b"null"), bytes(request.capabilities or b"null")
    is_usual = len(info) + len(capabilities) <= _USUAL_BYTES  # or anyone could fill the memory with them
    return _known_client(info, capabilities) if is_usual else _client(info, capabilities)


def _client(client_info: bytes, capabilities: bytes) -> Connection:
    return Connection.from_envelope(_ASKS_AS, decode(Payload(client_info)), decode(Payload(capabilities)))


_known_client = functools.lru_cache(maxsize=256)(_client)


@dataclass(kw_only=True)
class TaskRequest(ServerRequestContext[Any, Any]):
    """The request of a task's body, by which a call of its own is known to be one."""

    task: TaskContext


class TaskConnection(Connection):
    """A connection that makes what tasks hardly ever use only when it is used: thousands may sleep at once."""

    def __init__(self, channel: TaskChannel, client: Connection) -> None:
        self._channel, self.protocol_version, self.session_id = channel, client.protocol_version, None
        self.client_params = client.client_params
        self.client_capabilities = client.client_capabilities

    @property
    def outbound(self) -> TaskChannel:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._channel.standing()

    def __getattr__(self, name: str) -> Any:
        make = _MADE_LATER.get(name)
        if make is None:
            raise AttributeError(name)
        made = make()
        setattr(self, name, made)
        return made


def _set_event() -> anyio.Event:
    event = anyio.Event()
    event.set()
    return event


_MADE_LATER: dict[str, Callable[[], Any]] = {"initialized": _set_event, "state": dict, "exit_stack": AsyncExitStack}


class TaskChannel:
    """The SDK's `DispatchContext`, structurally: requests are put to the task's caller, progress goes to its row."""

    __slots__ = ("_context", "_is_standing", "_lines")

    transport = _TRANSPORT
    can_send_request = True
    message_metadata = None

    def __init__(self, context: TaskContext, lines: Lines, *, is_standing: bool = False) -> None:
        self._context, self._lines, self._is_standing = context, lines, is_standing

    def standing(self) -> TaskChannel:
        """Return the channel for what belongs to the connection rather than to the call."""
        return TaskChannel(self._context, self._lines, is_standing=True)

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
        self._require(method, params or {})
        try:
            async with asyncio.timeout((opts or {}).get("timeout")):
                return await self._context.ask(method, params or {}, _answer(method, params or {}), judges_itself=True)
        except TimeoutError:
            raise MCPError(REQUEST_TIMEOUT, f"Nobody answered {method} in time") from None
        except NotAnswered as error:
            raise MCPError(error.code, error.message, error.data) from None

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Logs and the like have no place in a task, but whoever still waits for it may have them."""
        await self._lines.notify(self._context.task.id, method, params, own_stream=not self._is_standing)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        await self._lines.progress(self._context.task.id, progress, total, message)
        with suppress(InvalidArgument):  # in a plain call it would not have stopped the tool either
            await self._context.progress(progress, total, message)

    def _require(self, method: str, params: Mapping[str, Any]) -> None:
        """A question its caller cannot answer would wait for days, so it is an error at once."""
        capability = _CAPABILITIES.get(method)
        request = restore_request(self._context.task.call.meta)
        declared = client_of(request).client_capabilities
        if capability is None or request.is_held or can_answer(declared, method, params):
            return
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"The client did not declare the {capability} capability, which this tool needs",
            {"requiredCapabilities": {capability: {}}},
        )


def _answer(method: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if method == "elicitation/create":
        schema = params.get("requestedSchema")
        return elicitation_answer(schema) if schema is not None else _ACTION
    return _ANSWERS.get(method)


def _settled(request: Request) -> InputResponseRequestParams:
    """Return the answers that came with the call, for resolvers to find again what they asked before."""
    if request.input_responses is UNSET and request.request_state is UNSET:
        return _NO_INPUTS
    return inputs(decode(request.input_responses), None if request.request_state is UNSET else request.request_state)


def inputs(responses: dict[str, Any] | None, state: str | None) -> InputResponseRequestParams:
    return InputResponseRequestParams.model_validate({"inputResponses": responses, "requestState": state})
