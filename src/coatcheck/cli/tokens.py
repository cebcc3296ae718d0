"""Options of commands that serve over HTTP, for who may come in: whoever shows a token of an issuer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import typer

from coatcheck.errors import InvalidArgument
from coatcheck.server.access.tokens.operators import (
    AUDIENCE_VARIABLE,
    ISSUER_VARIABLE,
    JWKS_VARIABLE,
    SCOPES_VARIABLE,
    operators_tokens,
)

_PANEL = "Who may come in"
Issuer = Annotated[
    str | None,
    typer.Option(
        help="Ask every caller for a token (JWT) of this issuer, an https URL; with --http and --audience.",
        envvar=ISSUER_VARIABLE,
        rich_help_panel=_PANEL,
    ),
]
Audience = Annotated[
    list[str] | None,
    typer.Option(
        help="What this server is called in the `aud` of tokens, as a rule its URL as clients know it; repeat it.",
        envvar=AUDIENCE_VARIABLE,
        rich_help_panel=_PANEL,
    ),
]
KeySet = Annotated[
    str | None,
    typer.Option(
        "--jwks",
        help="The URL of the issuer's keys. [default: the issuer's metadata says where]",
        envvar=JWKS_VARIABLE,
        rich_help_panel=_PANEL,
    ),
]
Scopes = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        help="A scope every token must have been granted; repeat it.",
        envvar=SCOPES_VARIABLE,
        rich_help_panel=_PANEL,
    ),
]


def ask_for_tokens(
    issuer: str | None,
    audience: Sequence[str] | None,
    jwks: str | None,
    scopes: Sequence[str] | None,
    *,
    is_http: bool,
) -> bool:
    """Have servers ask their callers for tokens, if they are to; by the environment, so that all processes do.

    Raises:
        InvalidArgument: What is said makes no sense.
    """
    said = {
        ISSUER_VARIABLE: issuer,
        AUDIENCE_VARIABLE: " ".join(audience or ()),
        JWKS_VARIABLE: jwks,
        SCOPES_VARIABLE: " ".join(scopes or ()),
    }
    os.environ.update({name: value for name, value in said.items() if value})
    is_asking = operators_tokens() is not None
    if is_asking and not is_http:
        raise InvalidArgument("Callers show their tokens over HTTP; serve with --http, or leave --issuer out.")
    return is_asking
