"""What a task remembers of the request that made it, so that its body can run in another process, days later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from mcp.server.context import ServerRequestContext
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    CallToolRequestParams,
)
from msgspec import UNSET, UnsetType

from coatcheck.payload import Payload, encode

_ENVELOPE = {CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY}


class Request(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The part of a `tools/call` that is neither its name nor its arguments."""

    protocol_version: str
    capabilities: Payload | UnsetType = UNSET
    client_info: Payload | UnsetType = UNSET
    meta: Payload | UnsetType = UNSET
    input_responses: Payload | UnsetType = UNSET
    """The answers that came with the call itself, to questions asked before there was a task."""
    request_state: str | UnsetType = UNSET


_decoder = msgspec.json.Decoder(Request)


def read_request(ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> Payload:
    """Return what to remember of a call, as a task's `meta`.

    Raises:
        InvalidArgument: It has no JSON form.
    """
    raw: Mapping[str, Any] = ctx.params or {}
    meta: Any = raw.get("_meta")
    envelope = cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}
    rest = {key: value for key, value in envelope.items() if key not in _ENVELOPE}
    return encode(
        Request(
            protocol_version=ctx.protocol_version,
            capabilities=_given(envelope.get(CLIENT_CAPABILITIES_META_KEY)),
            client_info=_given(envelope.get(CLIENT_INFO_META_KEY)),
            meta=_given(rest),
            input_responses=_given(raw.get("inputResponses")),
            request_state=params.request_state or UNSET,
        )
    )


def restore_request(meta: Payload) -> Request:
    return _decoder.decode(meta)


def _given(value: Any) -> Payload | UnsetType:
    return encode(value) if value else UNSET
