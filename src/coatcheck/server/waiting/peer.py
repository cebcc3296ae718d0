"""Questions put to the client of an open request, over the channel it came on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import mcp_types as types
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import CONNECTION_CLOSED
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from coatcheck.dialects import v2025
from coatcheck.dialects.words import QUESTION_KEY
from coatcheck.payload import decode
from coatcheck.server.calls.caller import HANDSHAKE
from coatcheck.server.hook import RequestContext
from coatcheck.task import InputRequest, Status

_POLL_SECONDS = (0.05, 60.0)
_CLOSED = "Connection closed"
"""What the SDK says of a channel that is gone; an error of the client's may have the same code."""


class Unreachable(Exception):
    """The client cannot be asked on this channel, or no longer."""


def can_answer(declared: types.ClientCapabilities | None, method: str, params: Mapping[str, Any]) -> bool:
    """Whether a client that declared this can answer that."""
    if declared is None:
        return False
    match method:
        case "elicitation/create":
            modes = declared.elicitation
            if modes is None:
                return False
            if params.get("mode") == "url":
                return modes.url is not None
            return modes.form is not None or modes.url is None  # at first there was but one mode, and no word for it
        case "sampling/createMessage":
            return declared.sampling is not None
        case "roots/list":
            return declared.roots is not None
        case _:
            return False


class Peer:
    """The client of one open request, which may be asked as long as the request is open."""

    def __init__(self, ctx: RequestContext, *, knows_task: bool) -> None:
        """`knows_task`: whether the client knows that what it waits for is a task."""
        self._ctx = ctx
        self._as_task = knows_task and ctx.protocol_version in HANDSHAKE
        # Without a stream of its own, the request's questions go over the standing one, if the client has it open.
        self._has_channel = ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS and (
            knows_task or ctx.session.can_send_request
        )

    def is_asked_by(self, session: str) -> bool:
        """Whether its questions go over the standing stream of this session."""
        request, own_stream = self._ctx.request, self._ctx.session.can_send_request
        return request is not None and not own_stream and request.headers.get(MCP_SESSION_ID_HEADER) == session

    @property
    def client(self) -> object:
        """What is the same in all requests of one connection."""
        return self._ctx.session.client_params

    def can_be_asked(self, request: InputRequest) -> bool:
        declared = self._ctx.session.client_capabilities
        return self._has_channel and can_answer(declared, request.method, decode(request.params))

    async def ask(self, request: InputRequest, task_id: str, key: str) -> dict[str, Any]:
        """Return the client's answer, in the protocol's words.

        Raises:
            MCPError: The client answered with an error.
            Unreachable: It cannot be asked.
        """
        return await self.send(request.method, self._params(request, task_id, key))

    def takes_tasks(self, request: InputRequest) -> bool:
        """Whether the client would rather be given the question as a task of its own."""
        declared = self._ctx.session.client_capabilities
        requests = declared.tasks.requests if declared and declared.tasks else None
        if not self._as_task or requests is None:
            return False
        match request.method:
            case "elicitation/create":
                return requests.elicitation is not None and requests.elicitation.create is not None
            case "sampling/createMessage":
                return requests.sampling is not None and requests.sampling.create_message is not None
            case _:
                return False

    async def hand_in(self, request: InputRequest, task_id: str, key: str, ttl: int | None) -> dict[str, Any]:
        """Give the client a question as a task, and return what it said: `task`, or already the answer."""
        terms = {} if ttl is None else {"ttl": ttl}
        return await self.send(request.method, {**self._params(request, task_id, key), "task": terms})

    async def collect(self, client_task: str) -> dict[str, Any]:
        """Poll a task the client has, and return its result."""
        while True:
            seen = await self.send("tasks/get", {"taskId": client_task})
            status = seen.get("status")
            if isinstance(status, str) and status in _TERMINAL:
                return await self.send("tasks/result", {"taskId": client_task})
            await asyncio.sleep(_pause(seen.get("pollInterval")))

    async def withdraw(self, client_task: str) -> None:
        """Tell the client that its task is not needed any more."""
        with suppress(MCPError, Unreachable):
            await self.send("tasks/cancel", {"taskId": client_task})

    def _params(self, request: InputRequest, task_id: str, key: str) -> dict[str, Any]:
        params: dict[str, Any] = decode(request.params)
        if not self._as_task:
            return params
        return {**params, "_meta": {**(params.get("_meta") or {}), **v2025.related(task_id), QUESTION_KEY: key}}

    async def send(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send any request, and return whatever is the answer."""
        session = self._ctx.session
        own_stream = ServerMessageMetadata(related_request_id=self._ctx.request_id)
        try:
            answer = await session.send_request(
                cast("Any", _Raw(method, params)),
                cast("Any", _Anything),
                metadata=own_stream if session.can_send_request else None,
            )
        except NoBackChannelError as error:
            raise Unreachable from error
        except MCPError as error:
            if error.code == CONNECTION_CLOSED and error.message == _CLOSED:
                raise Unreachable from error
            raise
        return {name: value for name, value in cast("dict[str, Any]", answer).items() if name != "_meta"}


_TERMINAL = {status.value for status in Status if status.is_terminal}


def _pause(interval: Any) -> float:
    """Return how long to pause between polls, in seconds, whatever a client says."""
    shortest, longest = _POLL_SECONDS
    if not isinstance(interval, int | float) or interval != interval:
        return 1.0
    return longest if interval > 1000 * longest else max(interval / 1000, shortest)


class _Raw:
    """A request that is sent as it is and answered with whatever comes: our own rules judge the answer."""

    method = "coatcheck/any"
    """None the SDK knows, so it does not hold the answer against its own idea of it."""

    def __init__(self, method: str, params: Mapping[str, Any]) -> None:
        self._dumped = {"method": method, "params": dict(params)}

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return self._dumped


class _Anything:
    @staticmethod
    def model_validate(answer: Any, **_: Any) -> Any:
        return answer
