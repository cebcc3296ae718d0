"""Two users of one application and a third one, with tokens an issuer signed; and a proxy that asks for them."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from coatcheck.proxy.access.terms import Terms, terms_of
from coatcheck.proxy.config import server_entry
from coatcheck.proxy.gateway import Gateway
from coatcheck.proxy.settings import ProxySettings
from coatcheck.server import JWTVerifier
from coatcheck.server.http.app import http_app
from tests.access.issuer import AUDIENCE, new_key
from tests.matrix.clients import Client
from tests.proxy.meta.upstreams import Upstream
from tests.server.asgi import running
from tests.v2025.wire import NEW, VERSION, WITH_TASKS, Json, OverHTTP, Place

ISSUER = "https://issuer.example"
KEY = new_key()
ROLES: Mapping[str, list[str]] = {"ann": ["ops"], "bob": [], "eve": ["admin", "ops"]}
GENERATIONS = (VERSION, NEW)


def token(subject: str, **more: Any) -> str:
    """Return a token of a user; all have the same client id."""
    now = int(time.time())
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "client_id": "app", "iat": now, "exp": now + 3600}
    return KEY.sign({**said, "roles": ROLES.get(subject, []), **more})


def verifier(**options: Any) -> JWTVerifier:
    return JWTVerifier(ISSUER, audience=AUDIENCE, jwks={"keys": [KEY.public]}, **options)


def gateway(
    upstreams: Iterable[Upstream],
    terms: Mapping[str, Any] | None = None,
    *,
    whole: Any = None,
    entry: Mapping[str, Any] | None = None,
    is_meta: bool = False,
    has_tokens: bool = True,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Gateway:
    """Return a proxy.

    `terms`: what entries say of who may use their servers, by name; `whole`: what the file says of all; `entry`: what
    else entries say.
    """
    said, more = terms or {}, entry or {}
    entries = {
        upstream.name: server_entry(upstream.name, {"url": upstream.url, "coatcheck": said.get(upstream.name), **more})
        for upstream in upstreams
    }
    settings = {"is_for_one": not has_tokens, "has_meta_tools": is_meta, **settings}
    return Gateway(
        entries,
        store="memory://",
        settings=ProxySettings(**settings),
        terms=Terms() if whole is None else terms_of(whole),
        tokens=verifier() if has_tokens else None,
        **(options or {}),
    )


@asynccontextmanager
async def serving(server: Gateway) -> AsyncGenerator[Place]:
    """Serve a proxy as `coatcheck proxy --http` does."""
    app = http_app(server, server.tasks)
    async with running(app), AsyncExitStack() as stack:
        yield Place(server, app, stack)


class User(OverHTTP):
    """Someone with a token."""

    def __init__(self, client: Client, app: Starlette, token: str) -> None:
        super().__init__(client, app, token=token)
        self.token = token

    def shows(self, token: str | None) -> None:
        """Show another token from now on, or none."""
        self._more = {"authorization": f"Bearer {token}"} if token else {}

    def takes_over(self, other: User) -> None:
        """Use another one's session."""
        self._session = dict(other._session)


async def user(
    place: Place, subject: str, version: str, capabilities: Json = WITH_TASKS, *, also: Mapping[str, Any] | None = None
) -> User:
    """Connect a user. `also`: what the token says beside, or otherwise."""
    return await place.enter(User(Client("test", version, capabilities), place.app, token(subject, **(also or {}))))


class Recording(Upstream):
    """A server that notes all headers it is sent."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.headers: list[tuple[str, str]] = []

    def app(self) -> ASGIApp:
        app = super().app()

        async def noting(scope: Scope, receive: Receive, send: Send) -> None:
            self.headers += [(name.decode(), value.decode()) for name, value in scope.get("headers", ())]
            await app(scope, receive, send)

        return noting


@asynccontextmanager
async def recording(name: str) -> AsyncGenerator[Recording]:
    server = Recording(name)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
