"""`tools/call` of 2026-07-28, where a server answers at once and nothing else is to be said."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from mcp.server.connection import Connection
from mcp.shared.exceptions import MCPError
from mcp_types import CLIENT_CAPABILITIES_META_KEY, LOG_LEVEL_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.methods import validate_client_request
from msgspec import UNSET, UnsetType
from pydantic import ValidationError

from coatcheck.client.wire import Json
from coatcheck.dialects.v2026 import VERSION
from coatcheck.dialects.words import IDEMPOTENCY_KEY
from coatcheck.proxy.quick.handover import hand_over
from coatcheck.proxy.sessions.sessions import mirrored, session_key
from coatcheck.proxy.tasking import Tasking, without_envelope
from coatcheck.proxy.upstreams.link import State
from coatcheck.proxy.upstreams.upstream import Upstream
from coatcheck.proxy.work import RowCall

_QUICK_SECONDS = 0.1
_MOST_REMEMBERED = 1024
_MOST_BYTES = 4096
_VARIES = frozenset({IDEMPOTENCY_KEY, "progressToken", LOG_LEVEL_META_KEY})
"""What is seen to on the longer way."""
_VARYING = tuple(name.encode() for name in _VARIES)


class _CallParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that brings nothing back from an earlier round of it."""

    name: str
    meta: msgspec.Raw = msgspec.field(name="_meta")
    arguments: dict[str, Any] | UnsetType = UNSET


class _Client(msgspec.Struct, frozen=True):
    session: str
    meta: Json


_read = msgspec.json.Decoder(_CallParams).decode


class QuickCalls:
    """Knows who calls by the `_meta` of its requests, which is always the same."""

    def __init__(self, tasking: Tasking) -> None:
        self._tasking = tasking
        self._clients: dict[bytes, _Client | None] = {}

    def knows(self, name: bytes) -> bool:
        return self._tasking.find_free(name.decode("latin-1")) is not None

    async def answer(self, name: bytes, params: msgspec.Raw, meta: dict[str, Any]) -> Json | None:
        """Return the result, if it comes at once. If not, the call goes on, and is handed over."""
        given = _read(params)
        found, client = self._tasking.find_free(given.name), self._client_of(bytes(given.meta))
        if found is None or client is None or name != given.name.encode():
            return None
        session = self._tasking.sessions.known(client.session)
        upstream = await session.upstream_for_call(found[0]) if session else None
        if upstream is None or not await is_simple(upstream, found[1]):
            return None
        arguments = {} if given.arguments is UNSET else given.arguments
        result = await quickly(RowCall(upstream, found[1], arguments, meta=client.meta, rounds={}))
        return None if result is None else self._tasking.framed(result, VERSION)

    def _client_of(self, raw: bytes) -> _Client | None:
        if len(raw) > _MOST_BYTES or any(name in raw for name in _VARYING):
            return None
        if raw not in self._clients:
            if len(self._clients) >= _MOST_REMEMBERED:
                self._clients.clear()
            self._clients[raw] = _client(msgspec.json.decode(raw))
        return self._clients[raw]


async def quickly(call: RowCall) -> Json | None:
    """Return the result of a call, if it comes at once. If not, the call goes on, and is handed over."""
    call.start()
    if await call.settled(_QUICK_SECONDS):
        try:
            result = await call.result()
            if result.get("resultType") != "input_required":  # whose state has to be sealed
                return result
        except MCPError:  # which the longer way knows how to tell
            pass
    hand_over(call)
    return None


async def is_simple(upstream: Upstream, tool: str) -> bool:
    """Whether a connection is there, and the tool wants nothing but arguments."""
    if upstream.state is not State.CONNECTED:
        return False
    info = (await upstream.desk.tools()).get(tool)
    return info is not None and not info.headers


def _client(found: Any) -> _Client | None:
    """Return who says this of itself, if the SDK would let it pass."""
    meta = cast("Json", found) if isinstance(found, dict) else {}
    if meta.get(PROTOCOL_VERSION_META_KEY) != VERSION or not _VARIES.isdisjoint(meta):  # however it was spelt
        return None
    try:
        validate_client_request("tools/list", VERSION, {"_meta": meta})
    except ValidationError:
        return None
    read = Connection.from_envelope(VERSION, None, meta.get(CLIENT_CAPABILITIES_META_KEY)).client_capabilities
    key = session_key(None, mirrored(read), is_older=False)
    return _Client(key, without_envelope(meta))
