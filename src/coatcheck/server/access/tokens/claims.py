"""What a token has to say for itself, and what is made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from mcp.server.auth.provider import AccessToken

Claims = Mapping[str, Any]
_TYPES = ("jwt", "at+jwt")
_OF_ID_TOKENS = ("at_hash", "c_hash")


class NotAccepted(Exception):
    """Why a token is refused, in words of ours: it is said nowhere what is in it."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What all good tokens have in common."""

    issuer: str
    audiences: tuple[str, ...]
    leeway: float


def check_head(head: Mapping[str, Any]) -> None:
    """Let the head of a token pass, but for its algorithm.

    Tokens of one issuer may be for other things than access: RFC 8725 has them say so in `typ`. As most access tokens
    say just `JWT`, or nothing, `at+jwt` cannot be asked for; but what says that it is something else is believed.

    Raises:
        NotAccepted: It is no access token, or has to be understood in a way that is not known here.
    """
    if "crit" in head:
        raise NotAccepted("it demands extensions, of which none are known here")
    kind = head.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in _TYPES:
        raise NotAccepted("it is a token for something other than access")


def read_claims(payload: bytes, expected: Expected, now: float) -> Claims:
    """Return what a token says, once its signature has been found good.

    Raises:
        NotAccepted: It is not for here, or not for now.
    """
    try:
        claims = msgspec.json.decode(payload, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise NotAccepted("its claims are no JSON object") from error
    if claims.get("iss") != expected.issuer:
        raise NotAccepted("it is of another issuer")
    if not _audience(claims, expected.audiences):
        raise NotAccepted("it is for somebody else")
    # OpenID's token about a user is signed with the same keys, and its audience may have our name.
    if any(name in claims for name in _OF_ID_TOKENS):
        raise NotAccepted("it is an ID token")
    _check_times(claims, expected.leeway, now)
    return claims


def access_token(token: str, claims: Claims, expected: Expected) -> AccessToken:
    """Return who shows a token, and what it was granted, as the SDK has it.

    Raises:
        NotAccepted: It does not say who.
    """
    client, subject = _text(claims, "client_id", "azp"), _text(claims, "sub")
    if not client and not subject:
        raise NotAccepted("it names neither a subject nor a client")
    return AccessToken(
        token=token,
        client_id=client or "",
        scopes=_scopes(claims),
        # The SDK looks at it, too, and knows of no leeway.
        expires_at=int(claims["exp"] + expected.leeway),
        resource=_audience(claims, expected.audiences),
        subject=subject,
        claims=dict(claims),
    )


def _check_times(claims: Claims, leeway: float, now: float) -> None:
    expires, begins, issued = (_moment(claims, name) for name in ("exp", "nbf", "iat"))
    if expires is None:
        raise NotAccepted("it never expires")
    if now >= expires + leeway:
        raise NotAccepted("it has expired")
    if max(begins or 0.0, issued or 0.0) > now + leeway:
        raise NotAccepted("it is from the future")


def _moment(claims: Claims, name: str) -> float | None:
    value: Any = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotAccepted(f"its {name} is no number")
    return float(value)


def _audience(claims: Claims, audiences: Sequence[str]) -> str | None:
    """Return which of our names a token is for."""
    given: Any = claims.get("aud")
    said = [given] if isinstance(given, str) else cast("list[Any]", given) if isinstance(given, list) else []
    return next((name for name in audiences if name in said), None)


def _text(claims: Claims, *names: str) -> str | None:
    """Return the first of these claims that is there."""
    for name in names:
        if (value := claims.get(name)) is not None:
            if not isinstance(value, str):
                raise NotAccepted(f"its {name} is no text")
            return value
    return None


def _scopes(claims: Claims) -> list[str]:
    given: Any = next((claims[name] for name in ("scope", "scp", "scopes") if claims.get(name) is not None), ())
    if isinstance(given, str):
        return given.split()
    listed = cast("list[Any]", given) if isinstance(given, list) else []
    return [name for name in listed if isinstance(name, str)]
