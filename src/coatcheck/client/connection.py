"""One connection to a server: its handshake, and requests as they are on the wire."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, cast

import mcp_types as types
from mcp.client.session import (
    ClientSession,
    ElicitationFnT,
    ListRootsFnT,
    LoggingFnT,
    SamplingFnT,
)
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_NAME_HEADER, MCP_PROTOCOL_VERSION_HEADER, encode_header_value
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from coatcheck.client.asking import put
from coatcheck.client.direct import Direct, Failed
from coatcheck.client.http import TICKET, Trouble, Troubles
from coatcheck.client.targets import Target
from coatcheck.client.wire import Json, Listener, Wire
from coatcheck.dialects import v2025, v2026
from coatcheck.dialects.words import IDEMPOTENCY_KEY
from coatcheck.errors import CannotConnect, NotAuthorized

logger = logging.getLogger("coatcheck")
MCP_SESSION_ID = "mcp-session-id"
_HANDSHAKE = ""
"""What the session sends on its own has no ticket."""
_GONE, _STREAM_GONE = "Connection closed", "SSE stream"
"""How the SDK begins to say that a connection is gone; an error of the server's may have the same code."""


class ConnectionLost(Exception):
    """A request has no answer. `is_final`: nor will any other have one on this connection."""

    def __init__(self, trouble: Trouble, *, is_final: bool) -> None:
        super().__init__(trouble.reason)
        self.was_sent, self.is_final = trouble.was_sent, is_final


Answer = Callable[[str, Json, str | None], Awaitable[Json]]
"""Answers a question as it is on the wire: its method, its params, and the call or task it is of, if that is known."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What the client can be asked and told, in the SDK's own form."""

    elicitation: ElicitationFnT | None = None
    sampling: SamplingFnT | None = None
    list_roots: ListRootsFnT | None = None
    logging: LoggingFnT | None = None
    answers_later: bool = False
    """Whether servers may ask what there is no callback for."""
    answer: Answer | None = None
    """Instead of all others: for who passes questions on as they are."""
    declared: Mapping[str, Any] | None = None
    """What to say of the client's capabilities then."""

    def can_answer(self, method: str) -> bool:
        if self.answer:
            return True
        match method:
            case "elicitation/create":
                return self.elicitation is not None
            case "sampling/createMessage":
                return self.sampling is not None
            case _:
                return self.list_roots is not None


class Connection:
    def __init__(
        self,
        target: Target,
        callbacks: Callbacks,
        info: types.Implementation | None,
        mode: str,
        listener: Listener,
        hears: Callable[[str], None] | None = None,
        *,
        is_direct: bool = False,
    ) -> None:
        """`hears`: told of what a process of ours writes to its stderr. `is_direct`: go past the SDK where one can."""
        lean = target.lean() if is_direct else None
        self._direct = Direct(lean, listener) if lean else None
        self._target, self._callbacks, self._info, self._mode = target, callbacks, info, mode
        self._listener = listener
        self._troubles = Troubles(hears=hears)
        self._tickets = itertools.count(1)
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running: asyncio.Task[None] | None = None
        self._wire: Wire | None = None
        self.session: ClientSession

    async def open(self) -> None:
        """Connect and shake hands.

        Raises:
            CannotConnect: There is no server, or none that speaks MCP.
        """
        # In a task of its own: the SDK's transports may break, and would take whoever holds them along.
        self._running = asyncio.create_task(self._hold())
        try:
            await asyncio.wait((self._running, self._ready), return_when=asyncio.FIRST_COMPLETED)
            if not self._ready.done():
                self._running.result()
        except (asyncio.CancelledError, CannotConnect):
            await self.close()
            raise
        except Exception as error:
            await self.close()
            raise self._cannot_connect(error) from error

    async def close(self) -> None:
        self._closing.set()
        if self._direct:
            self._direct.close()
        if self._running:
            if not self._ready.done():
                self._running.cancel()
            await asyncio.wait((self._running,))
            if not self._running.cancelled():
                self._running.exception()  # whoever asked for something has been told

    @property
    def is_broken(self) -> bool:
        return self._running is None or self._running.done() or (self._wire is not None and self._wire.is_over)

    @property
    def version(self) -> str:
        return self.session.protocol_version or ""

    @property
    def is_modern(self) -> bool:
        return self.version in MODERN_PROTOCOL_VERSIONS

    @property
    def has_tasks(self) -> bool:
        """Whether the server says that it has tasks, in the generation that is spoken."""
        declared = self.session.server_capabilities
        if declared is None:
            return False
        if self.is_modern:
            return v2026.EXTENSION in (declared.extensions or {})
        requests = declared.tasks.requests if declared.tasks else None
        return bool(requests and requests.tools and requests.tools.call is not None)

    @property
    def takes_keys(self) -> bool:
        """Whether the server says that it knows repeats of a call by their idempotency key."""
        declared = self.session.server_capabilities
        if declared is None:
            return False
        return IDEMPOTENCY_KEY in (declared.experimental or {})

    @property
    def keys_end_with_session(self) -> bool:
        """Whether the server knows repeats only within the session that is spoken in."""
        declared = self.session.server_capabilities
        said: Any = (declared.experimental or {}).get(IDEMPOTENCY_KEY) if declared else None
        return isinstance(said, dict) and cast("Json", said).get("scope") == "session"

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        name: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Json:
        """Send a request and return the result, whatever it is.

        Raises:
            ConnectionLost: There is none, and it may not even have been sent.
            MCPError: The server answered with an error.
        """
        assert self._wire
        opts: CallOptions = {"headers": {MCP_PROTOCOL_VERSION_HEADER: self.version, **(headers or {})}}
        if self.is_modern:
            params = {**params, "_meta": {**(params.get("_meta") or {}), **self._wire.envelope}}
            opts["headers"][MCP_METHOD_HEADER] = method
            if name is not None:
                opts["headers"][MCP_NAME_HEADER] = encode_header_value(name)
        if self._direct:
            return await self._ask_directly(self._direct, method, params, opts["headers"], timeout)
        ticket = f"{next(self._tickets)}"
        opts["headers"][TICKET] = ticket
        if timeout is not None:
            opts["timeout"] = timeout
        try:
            return await self._wire.send_raw_request(method, params, opts)
        except MCPError as error:
            raise self._judged(error, self._troubles.of.pop(ticket, None)) from error

    async def _ask_directly(
        self, direct: Direct, method: str, params: Mapping[str, Any], headers: dict[str, str], timeout: float | None
    ) -> Json:
        if self._troubles.session_id and not self.is_modern:
            headers[MCP_SESSION_ID] = self._troubles.session_id
        try:
            async with asyncio.timeout(timeout):
                return await direct.request(method, params, headers)
        except TimeoutError:
            raise ConnectionLost(Trouble(f"{method} timed out"), is_final=False) from None
        except Failed as error:
            trouble = error.trouble
            if trouble.is_refusal:
                raise NotAuthorized(self._target.label, trouble.status or 0) from error
            raise ConnectionLost(trouble, is_final=not trouble.is_fault and not self.is_modern) from error

    async def put(self, method: str, params: Json, request_id: str | int, about: str | None = None) -> Json:
        """Put a question to the client's callbacks, and return the answer. `about`: the call or task it is of."""
        if self._callbacks.answer:
            return await self._callbacks.answer(method, params, about)
        return await put(self.session, method, params, request_id)

    def can_answer(self, method: str) -> bool:
        return self._callbacks.can_answer(method)

    async def _hold(self) -> None:
        later: Any = _later if self._callbacks.answers_later else None
        async with AsyncExitStack() as stack:
            read, write = await stack.enter_async_context(self._target.open(self._troubles))
            self._wire = Wire(JSONRPCDispatcher(read, write), self._listener, self._callbacks.declared)
            self.session = await stack.enter_async_context(
                ClientSession(
                    dispatcher=cast("Any", self._wire),
                    elicitation_callback=self._callbacks.elicitation or later,
                    sampling_callback=self._callbacks.sampling or later,
                    list_roots_callback=self._callbacks.list_roots,
                    logging_callback=self._callbacks.logging,
                    client_info=self._info,
                    extensions={v2026.EXTENSION: {}},
                )
            )
            await self._shake_hands()
            self._ready.set_result(None)
            await self._closing.wait()

    async def _shake_hands(self) -> None:
        if self._mode == v2025.VERSION:
            await self.session.initialize()
            return
        try:
            await self.session.discover()
        except (MCPError, RuntimeError, ValidationError) as refused:
            trouble = self._troubles.of.get(_HANDSHAKE)
            if self._mode == v2026.VERSION or (trouble and (trouble.is_fault or trouble.is_refusal)):
                raise
            try:
                await self.session.initialize()
            except MCPError:
                # One that takes its time to start has heard the first question by now, and wants no other.
                if not isinstance(refused, MCPError) or refused.code != REQUEST_TIMEOUT:
                    raise
                await self.session.discover()

    def _judged(self, error: MCPError, trouble: Trouble | None) -> Exception:
        """Return what an error means."""
        if trouble and trouble.is_refusal:
            return NotAuthorized(self._target.label, trouble.status or 0)
        if trouble and (trouble.is_fault or not self.is_modern):
            return ConnectionLost(trouble, is_final=not trouble.is_fault)  # its session is gone
        if error.code == REQUEST_TIMEOUT and error.message.endswith("timed out"):
            return ConnectionLost(Trouble(error.message), is_final=False)
        if error.code == CONNECTION_CLOSED and error.message.startswith((_GONE, _STREAM_GONE)):
            reason = self._troubles.last_words() or error.message
            return ConnectionLost(Trouble(reason), is_final=error.message.startswith(_GONE))
        return error

    def _cannot_connect(self, error: BaseException) -> CannotConnect:
        label, trouble = self._target.label, self._troubles.of.get(_HANDSHAKE)
        error = _cause(error)
        if trouble and trouble.is_refusal:
            return NotAuthorized(label, trouble.status or 0)
        if trouble:
            hint = "is that the URL of its MCP endpoint?" if trouble.status else "is it running?"
            return CannotConnect(f"Cannot connect to {label}: {trouble.reason}; {hint}")
        if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
            said = self._troubles.last_words()
            return CannotConnect(f"{label} ended before it said hello{f': {said}' if said else ''}")
        said = (str(error) or type(error).__name__).splitlines()[0]
        return CannotConnect(f"{label} does not speak MCP as we know it: {said}")


async def _later(*_: object) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message="There is nobody to ask just now")


def _cause(error: BaseException) -> BaseException:
    """Return what is at the bottom of a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
