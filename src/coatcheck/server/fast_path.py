"""Polls over HTTP, answered on a shorter way: most requests of a busy server are `tasks/get`, and all look alike.

It stands where the SDK's endpoint stands, inside authentication, and takes only what the SDK would have answered
with a result. Whatever is unusual, wrong or refused goes on to the SDK untouched, so there is one set of rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from mcp.server.connection import Connection
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecurityMiddleware
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY, SERVER_INFO_META_KEY
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coatcheck.dialects.v2026 import EXTENSION, VERSION, write_task
from coatcheck.errors import CoatcheckError
from coatcheck.server.identity import is_anonymous
from coatcheck.server.replay import read_body, replay
from coatcheck.server.tasks import Tasks
from coatcheck.task import Task

_MOST_BYTES = 65_536
_MOST_REMEMBERED = 1024
_ONCE = frozenset({b"mcp-method", b"mcp-name", b"mcp-protocol-version", b"content-type", b"accept", b"host", b"origin"})


class _Meta(msgspec.Struct, frozen=True):
    version: str = msgspec.field(name=PROTOCOL_VERSION_META_KEY)
    capabilities: msgspec.Raw = msgspec.field(name=CLIENT_CAPABILITIES_META_KEY)


class _Params(msgspec.Struct, frozen=True):
    task_id: str = msgspec.field(name="taskId")
    meta: _Meta = msgspec.field(name="_meta")


class _Poll(msgspec.Struct, frozen=True):
    id: int | str
    jsonrpc: str
    method: str
    params: _Params


class _Reply(msgspec.Struct, frozen=True):
    id: int | str
    result: Any
    jsonrpc: str = "2.0"


_read = msgspec.json.Decoder(_Poll).decode
_write = msgspec.json.Encoder().encode


class FastPath:
    def __init__(self, app: ASGIApp, server: MCPServer[Any], tasks: Tasks) -> None:
        self._app, self._server, self._tasks = app, server, tasks
        self._security = TransportSecurityMiddleware(server.session_manager.security_settings)
        self._known = (*{type(middleware) for middleware in MCPServer("any").middleware},)
        self._trusted: set[tuple[bytes | None, ...]] = set()
        self._able: dict[bytes, bool] = {}
        stamp = server.session_manager.app.server_info_stamp
        self._meta: dict[str, Any] = {SERVER_INFO_META_KEY: stamp}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _single(scope["headers"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if headers and headers.get(b"mcp-method") == b"tasks/get" and await self._is_plain(scope, headers):
            messages = await read_body(receive, _MOST_BYTES)
            poll = _poll(messages)
            if poll and (task := await self._task(poll, headers)):
                await _respond(send, _write(_Reply(poll.id, write_task(task, self._meta))))
                return
            receive = replay(messages, receive)
        await self._app(scope, receive, send)

    async def _is_plain(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        """Whether nothing but the body decides about this request, as far as the SDK and the author are concerned."""
        accept = headers.get(b"accept", b"")
        if (
            headers.get(b"mcp-protocol-version") != VERSION.encode()
            or b"application/json" not in accept
            or b"text/event-stream" not in accept
            or not self._tasks.may_shorten_polls
            or any(not self._is_ours(middleware) for middleware in self._server.middleware)
        ):
            return False
        origin = (headers.get(b"host"), headers.get(b"origin"), headers.get(b"content-type"))
        if origin not in self._trusted:
            if await self._security.validate_request(Request(scope), is_post=True) is not None:
                return False
            _remember(self._trusted, origin)
        return True

    def _is_ours(self, middleware: Any) -> bool:
        return isinstance(middleware, self._known) or middleware == self._tasks.middleware

    async def _task(self, poll: _Poll, headers: dict[bytes, bytes]) -> Task | None:
        params = poll.params
        if (
            poll.jsonrpc != "2.0"
            or poll.method != "tasks/get"
            or params.meta.version != VERSION
            or headers.get(b"mcp-name") != params.task_id.encode("utf-8", "replace")
            or not self._is_able(bytes(params.meta.capabilities))
            or not is_anonymous()
        ):
            return None
        try:
            return await self._tasks.running.engine.get(params.task_id)
        except CoatcheckError:
            return None

    def _is_able(self, capabilities: bytes) -> bool:
        """Whether these capabilities have tasks, as the SDK reads them. Clients say the same in every request."""
        known = self._able.get(capabilities)
        if known is None:
            read = Connection.from_envelope(VERSION, None, msgspec.json.decode(capabilities)).client_capabilities
            known = bool(read and read.extensions and EXTENSION in read.extensions)
            if len(self._able) >= _MOST_REMEMBERED:
                self._able.clear()
            self._able[capabilities] = known
        return known


def _remember(seen: set[tuple[bytes | None, ...]], value: tuple[bytes | None, ...]) -> None:
    if len(seen) >= _MOST_REMEMBERED:
        seen.clear()
    seen.add(value)


def _single(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes] | None:
    """Return the headers that matter, or None if one of them is given twice."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _ONCE:
            if name in found:
                return None
            found[name] = value
    return found


def _poll(messages: list[Message]) -> _Poll | None:
    if messages[-1]["type"] != "http.request" or messages[-1].get("more_body", False):
        return None
    try:
        return _read(b"".join(message.get("body", b"") for message in messages))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


async def _respond(send: Send, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
