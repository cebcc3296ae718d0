"""The same for generations before 2026-07-28: in a session that the SDK knows, and we have seen a call of.

Answered as JSON, which a client has to accept; the SDK would have made a stream of it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from mcp.server.mcpserver import MCPServer
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from msgspec import UNSET, UnsetType
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coatcheck.client.wire import Json
from coatcheck.proxy.quick.calls import is_simple, quickly
from coatcheck.proxy.tasking import Tasking
from coatcheck.proxy.work import RowCall
from coatcheck.server.http.fast_path import Trust, respond
from coatcheck.server.http.live_sessions import LiveSessions
from coatcheck.server.http.observers import Observers
from coatcheck.server.http.replay import read_body, replay
from coatcheck.server.identity import is_anonymous
from coatcheck.server.tasks import Tasks

_MOST_BYTES = 65_536
_VERSIONS = {version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS}
_CALL = b'"tools/call"'


class _Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that asks for neither a task nor progress."""

    name: str
    arguments: dict[str, Any] | UnsetType = UNSET


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: int | str
    jsonrpc: str
    method: str
    params: _Params


class _Reply(msgspec.Struct, frozen=True):
    id: int | str
    result: Json
    jsonrpc: str = "2.0"


_read = msgspec.json.Decoder(_Request).decode
_write = msgspec.json.Encoder().encode


class QuickOlderCalls:
    def __init__(self, app: ASGIApp, server: MCPServer[Any], tasks: Tasks, tasking: Tasking) -> None:
        self._app, self._tasking = app, tasking
        self._trust, self._observers = Trust(server), Observers(server, tasks)
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
        if (
            _CALL not in body
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
        result = await self._called(session, request.params)
        return None if result is None else _write(_Reply(request.id, result))

    async def _called(self, http_session: str, params: _Params) -> Json | None:
        found = self._tasking.find(params.name)
        if found is None:
            return None
        session = self._tasking.sessions.known(self._tasking.older[http_session].key)
        if session is None:
            return None
        upstream = await session.upstream_for_call(found[0])
        if not await is_simple(upstream, found[1]):
            return None
        return await quickly(RowCall(upstream, found[1], {} if params.arguments is UNSET else params.arguments))
