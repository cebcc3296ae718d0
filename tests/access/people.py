"""Callers with tokens, and what their tokens say."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl

from coatcheck.server import TaskServer
from tests.server.wire import OverHTTP, over_http

CLAIMS: dict[str, dict[str, Any]] = {
    "ann": {"roles": ["editor"], "teams": ["red"]},
    "bob": {"roles": ["reader"], "teams": ["blue"]},
    "eve": {},
}
SCOPES = {"ann": ["read", "write"], "bob": ["read"], "eve": []}


class Passports:
    """Tokens are names."""

    async def verify_token(self, token: str) -> AccessToken | None:
        if token not in CLAIMS:
            return None
        claims = {"iss": "https://issuer.example", **CLAIMS[token]}
        return AccessToken(token=token, client_id="app", scopes=SCOPES[token], subject=token, claims=claims)


def guarded(**options: Any) -> TaskServer:
    """Return a server that knows its callers by their tokens."""
    auth = AuthSettings(
        issuer_url=AnyHttpUrl("https://issuer.example"),
        resource_server_url=AnyHttpUrl("http://127.0.0.1:8000/mcp"),
        validate_token_resource=False,
    )
    return TaskServer("test", store="memory://", token_verifier=Passports(), auth=auth, **options)


@asynccontextmanager
async def callers(server: TaskServer, **options: Any) -> AsyncGenerator[tuple[OverHTTP, OverHTTP, OverHTTP]]:
    """Serve ann, bob and eve."""
    async with over_http(server, **options) as anyone:
        ann, bob, eve = (anyone.again(token=name) for name in CLAIMS)
        yield ann, bob, eve
