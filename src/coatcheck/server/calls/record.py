"""What a task remembers of the request that made it, so that its body can run in another process, days later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    CallToolRequestParams,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from msgspec import UNSET, UnsetType

from coatcheck.dialects.words import IDEMPOTENCY_KEY
from coatcheck.errors import InvalidArgument
from coatcheck.payload import Payload, decode, encode
from coatcheck.server.hook import RequestContext

_ENVELOPE = {CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY, IDEMPOTENCY_KEY}


class Request(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The part of a `tools/call` that is neither its name nor its arguments."""

    protocol_version: str = "2026-07-28"
    capabilities: Payload | UnsetType = UNSET
    client_info: Payload | UnsetType = UNSET
    meta: Payload | UnsetType = UNSET
    input_responses: Payload | UnsetType = UNSET
    """The answers that came with the call itself, to questions asked before there was a task."""
    request_state: str | UnsetType = UNSET
    caller: Payload | UnsetType = UNSET
    """What the token of an authenticated caller said; not the token, which is a secret."""
    is_held: bool = False
    """Whether its caller knows no tasks: whatever cannot be asked of it directly is asked by a ticket."""


_decoder = msgspec.json.Decoder(Request)


def restore_caller(request: Request) -> AuthenticatedUser | None:
    """Return who made the call, as the SDK has it while it is served, but that the token is left out."""
    if request.caller is UNSET:
        return None
    return AuthenticatedUser(AccessToken.model_validate(decode(request.caller)))


def _said_by_token() -> Payload | UnsetType:
    token = get_access_token()
    if token is None:
        return UNSET
    return encode(token.model_copy(update={"token": ""}).model_dump(mode="json", exclude_none=True))


def read_request(
    ctx: RequestContext,
    params: CallToolRequestParams,
    *,
    is_held: bool = False,
    more: Mapping[str, Any] | None = None,
) -> Payload:
    """Return what to remember of a call, as a task's `meta`; with `more` in its `_meta`, which is ours.

    Raises:
        InvalidArgument: It has no JSON form.
    """
    raw: Mapping[str, Any] = ctx.params or {}
    meta: Any = raw.get("_meta")
    envelope = dict(cast("dict[str, Any]", meta)) if isinstance(meta, dict) else {}
    if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
        envelope |= _said_hello(ctx)
    envelope |= more or {}
    responses, state = raw.get("inputResponses"), params.request_state
    return write_request(ctx.protocol_version, envelope, responses, state, is_held=is_held)


def key_of(ctx: RequestContext) -> str | None:
    """Return what makes repeats of a call one, if its caller said so.

    Raises:
        InvalidArgument: It is no key.
    """
    meta: Any = (ctx.params or {}).get("_meta")
    key = cast("dict[str, Any]", meta).get(IDEMPOTENCY_KEY) if isinstance(meta, dict) else None
    if key is not None and not isinstance(key, str):
        raise InvalidArgument(f"{IDEMPOTENCY_KEY} must be a string.")
    return key


def _said_hello(ctx: RequestContext) -> dict[str, Any]:
    """Return what clients said once, before 2026-07-28, in the place where they say it with each request now."""
    client = ctx.session.client_params
    if client is None:
        return {}
    said = client.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {CLIENT_CAPABILITIES_META_KEY: said["capabilities"], CLIENT_INFO_META_KEY: said["clientInfo"]}


def write_request(
    version: str,
    meta: Mapping[str, Any],
    responses: Any = None,
    state: str | None = None,
    *,
    is_held: bool = False,
    is_nobodys: bool = False,
) -> Payload:
    """Return the same of its parts: the request's `_meta`, and what came back from an earlier round.

    `is_nobodys`: it has nothing to do with the request that is being served just now.
    """
    return encode(
        Request(
            caller=UNSET if is_nobodys else _said_by_token(),
            protocol_version=version,
            capabilities=_given(meta.get(CLIENT_CAPABILITIES_META_KEY)),
            client_info=_given(meta.get(CLIENT_INFO_META_KEY)),
            meta=_given({key: value for key, value in meta.items() if key not in _ENVELOPE}),
            input_responses=_given(responses),
            request_state=state or UNSET,
            is_held=is_held,
        )
    )


def restore_request(meta: Payload) -> Request:
    return _decoder.decode(meta)


def _given(value: Any) -> Payload | UnsetType:
    return encode(value) if value else UNSET
