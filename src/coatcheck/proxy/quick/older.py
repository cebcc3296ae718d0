"""The same for generations before 2026-07-28: in a session that the SDK knows, and we have seen a call of.

Answered as JSON, which a client has to accept; the SDK would have made a stream of it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from mcp.server.mcpserver import MCPServer
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from msgspec import UNSET, UnsetType
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coatcheck.dialects.words import REQUEST_CANCELLED
from coatcheck.proxy.quick.calls import is_simple, quickly
from coatcheck.proxy.tasking import Tasking
from coatcheck.proxy.work import RowCall
from coatcheck.server.http.fast_path import Failure, Reply, Trust, respond
from coatcheck.server.http.live_sessions import LiveSessions
from coatcheck.server.http.observers import Observers
from coatcheck.server.http.replay import read_body, replay
from coatcheck.server.identity import is_anonymous
from coatcheck.server.tasks import Tasks

_MOST_BYTES = 65_536
_VERSIONS = {version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS}
_CALL, _CANCEL = b'"tools/call"', b'"notifications/cancelled"'


class _Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that asks for neither a task nor progress."""

    name: str
    arguments: dict[str, Any] | UnsetType = UNSET


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: int | str
    jsonrpc: str
    method: str
    params: _Params


class _CancelParams(msgspec.Struct, frozen=True, rename="camel"):
    request_id: int | str


class _Cancel(msgspec.Struct, frozen=True):
    params: _CancelParams


_read = msgspec.json.Decoder(_Request).decode
_read_cancel = msgspec.json.Decoder(_Cancel).decode
_write = msgspec.json.Encoder().encode


class QuickOlderCalls:
    def __init__(self, app: ASGIApp, server: MCPServer[Any], tasks: Tasks, tasking: Tasking) -> None:
        self._app, self._tasking = app, tasking
        self._trust, self._observers = Trust(server), Observers(server)
        self._most = min(_MOST_BYTES, server.session_manager.max_request_body_size)
        self._under_way: dict[tuple[str, int | str], RowCall] = {}
        self._sessions = LiveSessions(app, server.session_manager.session_idle_timeout)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"]) if scope["type"] == "http" else {}
        session = headers.get(b"mcp-session-id", b"").decode("latin-1")
        if session not in self._tasking.older:
            await self._app(scope, receive, send)
            return
        if scope["method"] != "POST":
            await self._app(scope, receive, self._watching(session, scope["method"], send))
            return
        messages = await read_body(receive, _MOST_BYTES)
        result = await self._answered(scope, headers, session, messages)
        if result is not None:
            await respond(send, result, (b"mcp-session-id", session.encode("latin-1")))
            await self._sessions.touch(scope)
        else:
            await self._app(scope, replay(messages, receive), self._watching(session, "POST", send))

    def _watching(self, session: str, method: str, send: Send) -> Send:
        """Return a `send` that notes when a session is no more."""

        async def watching(message: Message) -> None:
            if message["type"] == "http.response.start" and (method == "DELETE" or message["status"] == 404):
                self._tasking.older.pop(session, None)
            await send(message)

        return watching

    async def _answered(
        self, scope: Scope, headers: dict[bytes, bytes], session: str, messages: list[Message]
    ) -> bytes | None:
        body = messages[0].get("body", b"") if len(messages) == 1 else b""
        if _CANCEL in body:
            self._cancel(session, body)
        if (
            _CALL not in body
            or len(body) > self._most
            or messages[0].get("more_body")
            or headers.get(b"mcp-protocol-version") not in _VERSIONS
            or not is_anonymous()
            or self._observers
            or not await self._trust.covers(scope, headers)
        ):
            return None
        try:
            str(body, "utf-8")
            request = _read(body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        if request.jsonrpc != "2.0" or request.method != "tools/call":
            return None
        call = await self._call(session, request.params)
        if call is None:
            return None
        at = (session, request.id)
        self._under_way[at] = call
        try:
            result = await quickly(call)
            return None if result is None else _write(Reply(request.id, result))
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current and current.cancelling():
                raise
            return _write(Failure(request.id, {"code": REQUEST_CANCELLED, "message": "Request cancelled"}))
        finally:
            self._under_way.pop(at, None)

    async def _call(self, http_session: str, params: _Params) -> RowCall | None:
        """Return a call that can go this way, not begun yet."""
        found, older = self._tasking.find_free(params.name), self._tasking.older.get(http_session)
        session = self._tasking.sessions.known(older.key) if older else None
        if found is None or session is None:
            return None
        upstream = await session.upstream_for_call(found[0])
        if not await is_simple(upstream, found[1]):
            return None
        return RowCall(upstream, found[1], {} if params.arguments is UNSET else params.arguments)

    def _cancel(self, session: str, body: bytes) -> None:
        """Cancel a call that the SDK does not know of yet."""
        try:
            cancelled = _read_cancel(body).params.request_id
        except (msgspec.MsgspecError, ValueError):
            return
        older, call = self._tasking.older.get(session), self._under_way.get((session, cancelled))
        if older and call:
            older.run(call.cancel())
