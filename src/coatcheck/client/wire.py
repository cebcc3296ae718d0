"""The SDK's dispatcher, with an ear on what passes: tasks have messages that its session has no words for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import anyio.abc
from anyio import TASK_STATUS_IGNORED
from mcp.shared.dispatcher import CallOptions, DispatchContext, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import CLIENT_CAPABILITIES_META_KEY

Json = dict[str, Any]
Params = Mapping[str, Any] | None
_DISCOVER, _INITIALIZE = "server/discover", "initialize"
QUESTIONS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})


class Listener(Protocol):
    """Who hears what a server says of its own accord."""

    def notified(self, method: str, params: Params) -> bool:
        """Return whether nobody else needs to hear it."""
        ...

    async def asked(self, method: str, params: Json, request_id: str | int, about: str | None = None) -> Json:
        """Answer a question. `about`: the call it came with, if that can be told."""
        ...

    def ended(self) -> None:
        """Nothing more will come over this connection."""
        ...


class Wire:
    """One connection's messages, as they are."""

    def __init__(
        self,
        dispatcher: JSONRPCDispatcher[TransportContext],
        listener: Listener,
        declared: Mapping[str, Any] | None = None,
    ) -> None:
        """`declared`: what to say of the client's capabilities in place of what the SDK says."""
        self._dispatcher, self._listener, self._declared = dispatcher, listener, declared
        self.is_over = False
        self.envelope: Json = {}
        """What the SDK says of the client in each request of 2026-07-28."""

    async def send_raw_request(self, method: str, params: Params, opts: CallOptions | None = None) -> Json:
        if method == _DISCOVER and params:
            self.envelope = dict(params["_meta"])
            if self._declared is not None:
                extensions = self.envelope[CLIENT_CAPABILITIES_META_KEY].get("extensions")
                self.envelope[CLIENT_CAPABILITIES_META_KEY] = {**self._declared, "extensions": extensions}
                params = {**params, "_meta": self.envelope}
        elif method == _INITIALIZE and params:
            # Having tasks is said by those who take them, too: the SDK does not say it.
            capabilities = params["capabilities"] if self._declared is None else self._declared
            params = {**params, "capabilities": {**capabilities, "tasks": {}}}
        return await self._dispatcher.send_raw_request(method, params, opts)

    async def notify(self, method: str, params: Params, opts: CallOptions | None = None) -> None:
        await self._dispatcher.notify(method, params, opts)

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = TASK_STATUS_IGNORED,
    ) -> None:
        async def request(ctx: DispatchContext[TransportContext], method: str, params: Params) -> Json:
            if method in QUESTIONS and ctx.request_id is not None:
                return await self._listener.asked(method, dict(params or {}), ctx.request_id)
            return await on_request(ctx, method, params)

        def intercept(method: str, params: Params) -> bool:
            is_ours = self._listener.notified(method, params)
            return is_ours or (on_notify_intercept is not None and on_notify_intercept(method, params))

        try:
            await self._dispatcher.run(request, on_notify, intercept, task_status=task_status)
        finally:
            self.is_over = True
            self._listener.ended()
