"""A shorter way through HTTP for the requests a busy server gets most: they all look alike.

It stands where the SDK's endpoint stands, inside authentication, and takes only what the SDK would have answered
with a result. Whatever is unusual, wrong or refused goes on to the SDK untouched, so there is one set of rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http import check_accept_headers
from mcp.server.transport_security import TransportSecurityMiddleware
from mcp_types import SERVER_INFO_META_KEY
from starlette.requests import Request as HTTPRequest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coatcheck.dialects.v2026 import VERSION
from coatcheck.errors import StoreError
from coatcheck.server.failures import protocol_error
from coatcheck.server.http.observers import Observers
from coatcheck.server.http.replay import read_body, replay
from coatcheck.server.http.shortcuts import REFUSALS, Clients, HandIns, Polls, Request, Shortcut
from coatcheck.server.identity import is_anonymous
from coatcheck.server.tasks import Tasks

_VERSION = VERSION.encode()
_MOST_BYTES = 65_536
_MOST_REMEMBERED = 1024
_ORIGIN = (b"host", b"origin", b"content-type", b"accept")
"""What decides about a request whatever its body is; clients say the same in every request."""
_ONCE = frozenset({b"mcp-method", b"mcp-name", b"mcp-protocol-version", b"content-length", *_ORIGIN})
_ANY_PARAM = b"mcp-param-"
_LONG_NUMBER = re.compile(rb"\d{4300}")
"""More digits than the SDK's parser takes."""


class Reply(msgspec.Struct, frozen=True):
    """A JSON-RPC answer."""

    id: int | str
    result: Any
    jsonrpc: str = "2.0"


class Failure(msgspec.Struct, frozen=True):
    """A JSON-RPC error."""

    id: int | str
    error: dict[str, Any]
    jsonrpc: str = "2.0"


_read = msgspec.json.Decoder(Request).decode
_write = msgspec.json.Encoder().encode


class FastPath:
    def __init__(self, app: ASGIApp, server: MCPServer[Any], tasks: Tasks) -> None:
        self._app, self._server, self._tasks = app, server, tasks
        self._trust = Trust(server)
        self._observers = Observers(server)
        self._most = min(_MOST_BYTES, server.session_manager.max_request_body_size)
        self._meta: dict[str, Any] = {SERVER_INFO_META_KEY: server.session_manager.app.server_info_stamp}
        clients = Clients()
        self._shortcuts: dict[bytes | None, Shortcut] = {
            b"tasks/get": Polls(tasks, clients),
            b"tools/call": tasks.call_shortcut() or HandIns(tasks, clients),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _single(scope["headers"]) if scope["type"] == "http" and scope["method"] == "POST" else {}
        shortcut = self._shortcuts.get(headers.get(b"mcp-method"))
        if shortcut and shortcut.knows(headers.get(b"mcp-name", b"")) and await self._is_plain(scope, headers):
            messages = await read_body(receive, _MOST_BYTES)
            if answer := await self._answer(shortcut, headers, messages):
                await respond(send, answer)
                return
            receive = replay(messages, receive)
        await self._app(scope, receive, send)

    async def _is_plain(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        """Whether nothing but the body decides about this request, as far as the SDK and the author are concerned."""
        if (
            headers.get(b"mcp-protocol-version") != _VERSION
            or not self._tasks.may_shorten
            or not is_anonymous()
            or self._observers
        ):
            return False
        return await self._trust.covers(scope, headers)

    async def _answer(self, shortcut: Shortcut, headers: dict[bytes, bytes], messages: list[Message]) -> bytes | None:
        if messages[-1]["type"] != "http.request" or messages[-1].get("more_body", False):
            return None
        body = b"".join(message.get("body", b"") for message in messages)
        length = b"%d" % len(body)
        if len(body) > self._most or _LONG_NUMBER.search(body) or headers.get(b"content-length", length) != length:
            return None
        try:
            str(body, "utf-8")  # our parser does not look closely at what it skips
            request = _read(body)
        except REFUSALS:
            return None
        try:
            if request.jsonrpc != "2.0" or request.method.encode() != headers[b"mcp-method"]:
                return None
            result = await shortcut.answer(headers.get(b"mcp-name", b""), request.params, self._meta)
        except StoreError as error:  # perhaps it was written: nobody may try again without being told
            return _write(Failure(request.id, protocol_error(error).error.model_dump(exclude_none=True)))
        except REFUSALS:
            return None
        return _write(Reply(request.id, result)) if result else None


class Trust:
    """Whether the SDK would let a request in, by where it comes from: looked at once for all that say the same."""

    def __init__(self, server: MCPServer[Any]) -> None:
        self._security = TransportSecurityMiddleware(server.session_manager.security_settings)
        self._known: set[tuple[bytes | None, ...]] = set()

    async def covers(self, scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
        origin = tuple(headers.get(name) for name in _ORIGIN)
        if origin not in self._known:
            request = HTTPRequest(scope)
            is_refused = await self._security.validate_request(request, is_post=True) is not None
            if is_refused or not all(check_accept_headers(request)):
                return False
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known.add(origin)
        return True


def _single(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the headers that matter; none if one of them is given twice, or is for the SDK to judge."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _ONCE:
            if name in found:
                return {}
            found[name] = value
        elif name.startswith(_ANY_PARAM):
            return {}
    return found


async def respond(send: Send, body: bytes, *more: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
