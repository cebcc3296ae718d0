"""Tokens an operator asks for, by the environment, of a server whose code asks for none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from coatcheck.errors import InvalidArgument
from coatcheck.server.access.tokens.verifier import JWTVerifier, signed_in_by

ISSUER_VARIABLE = "COATCHECK_ISSUER"
AUDIENCE_VARIABLE = "COATCHECK_AUDIENCE"
JWKS_VARIABLE = "COATCHECK_JWKS"
SCOPES_VARIABLE = "COATCHECK_SCOPES"
"""With blanks between them, as the audiences."""


def operators_tokens() -> JWTVerifier | None:
    """Return what the operator has callers show; None: nothing.

    Raises:
        InvalidArgument: Only half of it is said, and callers would be let in by mistake, or never.
    """
    issuer, audience = os.environ.get(ISSUER_VARIABLE), os.environ.get(AUDIENCE_VARIABLE, "").split()
    jwks, scopes = os.environ.get(JWKS_VARIABLE), os.environ.get(SCOPES_VARIABLE, "").split()
    if not issuer and (audience or jwks or scopes):
        raise InvalidArgument(
            "Of tokens there is an audience, a key set or a scope, but no issuer; "
            f"name it with --issuer, or {ISSUER_VARIABLE}."
        )
    if not issuer:
        return None
    if not audience:
        raise InvalidArgument(
            f"Tokens of {issuer} may be for any server; say what this one is called in their `aud` with --audience, "
            f"or {AUDIENCE_VARIABLE}."
        )
    return JWTVerifier(issuer, audience=audience, jwks=jwks or None, scopes=scopes)


def signed_in(tokens: JWTVerifier | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what makes `MCPServer` ask its callers for the author's `tokens`, or for the operator's.

    Raises:
        InvalidArgument: Both say something about that.
    """
    asked = operators_tokens()
    if asked is None:
        return signed_in_by(tokens, options)
    if tokens is not None or any(options.get(name) is not None for name in ("token_verifier", "auth")):
        raise InvalidArgument(
            f"This server has authentication of its own in its code; leave --issuer and {ISSUER_VARIABLE} out."
        )
    return signed_in_by(asked, options)
