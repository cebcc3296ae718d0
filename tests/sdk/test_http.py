"""The ASGI application: what of it can be taken apart and put together again, and what it judges a request by."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.context import HandlerResult
from mcp.server.extension import MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http import check_accept_headers
from mcp.server.transport_security import TransportSecurityMiddleware
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    Implementation,
    RequestParams,
)
from mcp_types.jsonrpc import HEADER_MISMATCH
from mcp_types.methods import validate_client_request
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import AnyHttpUrl, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.sdk.asgi import exchange, scope
from tests.sdk.peer import EARLIER, NEWER, OLDER, Client
from tests.sdk.probe import METHOD, RequestContext, serving
from tests.sdk.transports import Way, another, over_http

pytestmark = pytest.mark.anyio

HOST = {"host": "127.0.0.1:8000"}
POST = {**HOST, "content-type": "application/json", "accept": "application/json, text/event-stream"}


class Counting:
    """An endpoint in front of another."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.count += 1
        await self._app(scope, receive, send)


class Verifier:
    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id="app", scopes=["use"])


def _guarded() -> MCPServer[Any]:
    url = AnyHttpUrl("http://127.0.0.1:8000/mcp")
    auth = AuthSettings(issuer_url=url, resource_server_url=url, required_scopes=["use"], validate_token_resource=False)
    return serving(token_verifier=Verifier(), auth=auth)


def _routes(app: Starlette) -> list[Route]:
    return [route for route in app.router.routes if isinstance(route, Route)]


# Taking it apart


async def test_the_endpoint_is_the_route_with_the_session_manager_and_can_be_replaced() -> None:
    server = serving()
    app = server.streamable_http_app()
    (route,) = [one for one in _routes(app) if getattr(one.endpoint, "session_manager", None) is server.session_manager]
    counting = Counting(route.endpoint)
    made = Starlette(routes=[Route(route.path, counting)], lifespan=app.router.lifespan_context)
    async with made.router.lifespan_context(made), another(made, Client(NEWER)) as peer:
        await peer.call("echo")
    assert route.path == "/mcp"
    assert app.user_middleware == []
    assert counting.count == 1


async def test_with_authentication_the_endpoint_stands_behind_it_and_can_be_replaced() -> None:
    app = _guarded().streamable_http_app()
    (route,) = [one for one in _routes(app) if one.path == "/mcp"]
    guard = route.endpoint
    assert isinstance(guard, RequireAuthMiddleware)
    counting = Counting(guard.app)
    rebuilt = RequireAuthMiddleware(counting, guard.required_scopes, guard.resource_metadata_url)
    made = Starlette(
        routes=[Route(route.path, rebuilt)], middleware=app.user_middleware, lifespan=app.router.lifespan_context
    )
    async with made.router.lifespan_context(made):
        async with exchange(made, "POST", "/mcp", POST, {}) as refused:
            assert (await refused.head())[0] == 401
        async with another(made, Client(NEWER, headers={"authorization": "Bearer any"})) as peer:
            await peer.call("echo")
    assert guard.required_scopes == ["use"]
    assert counting.count == 1


async def test_one_server_can_be_served_by_two_applications_at_once() -> None:
    entered: list[str] = []

    @asynccontextmanager
    async def lifespan(server: MCPServer[Any]) -> AsyncGenerator[str]:
        entered.append(server.name)
        yield "state"

    server = serving(lifespan=lifespan)
    server.streamable_http_app(json_response=False)
    streaming = server.session_manager
    server.streamable_http_app(json_response=True)
    plain = server.session_manager
    async with AsyncExitStack() as stack:
        for manager in (streaming, plain):
            await stack.enter_async_context(manager.run())
        for manager in (streaming, plain):
            async with another(manager.handle_request, Client(OLDER)) as peer:
                assert (await peer.call("echo"))["content"][0]["text"] == "nothing"
    assert streaming is not plain
    assert entered == ["probe", "probe"]


@pytest.mark.parametrize(("json_response", "kind"), [(True, "application/json"), (False, "text/event-stream")])
async def test_an_older_client_is_answered_as_the_application_was_told_to(json_response: bool, kind: str) -> None:
    app = serving().streamable_http_app(json_response=json_response, streamable_http_path="/elsewhere")
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": Client(OLDER).greeting()}
    async with app.router.lifespan_context(app), exchange(app, "POST", "/elsewhere", POST, message) as sending:
        status, headers = await sending.head()
    assert status == 200
    assert headers["content-type"].startswith(kind)


async def test_the_stamp_on_answers_is_known_beforehand(newer: Way) -> None:
    server = serving(title="Probe", description="of a contract", website_url="https://example.com")
    server.streamable_http_app()
    stamp = server.session_manager.app.server_info_stamp
    async with newer(server) as peer:
        assert (await peer.call("echo"))["_meta"][SERVER_INFO_META_KEY] == stamp
    said = Implementation(
        name=server.name,
        title=server.title,
        description=server.description,
        version=server.version,
        website_url=server.website_url,
        icons=server.icons,
    )
    assert said.model_dump(by_alias=True, mode="json", exclude_none=True) == stamp


# What a request is judged by


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({**POST}, None),
        ({**POST, "host": "example.com"}, 421),
        ({**POST, "origin": "https://example.com"}, 403),
        ({**HOST, "content-type": "text/plain"}, 400),
        ({**HOST}, 400),
    ],
    ids=["fine", "host", "origin", "type", "no type"],
)
async def test_its_origin_can_be_judged_apart_from_it(headers: dict[str, str], status: int | None) -> None:
    server = serving()
    server.streamable_http_app()
    security = TransportSecurityMiddleware(server.session_manager.security_settings)
    refusal = await security.validate_request(Request(scope("POST", "/mcp", headers)), is_post=True)
    assert (refusal and refusal.status_code) == status


@pytest.mark.parametrize(
    ("accept", "takes"),
    [
        ("application/json, text/event-stream", (True, True)),
        ("*/*", (True, True)),
        ("application/json", (True, False)),
        ("text/event-stream", (False, True)),
        ("", (False, False)),
    ],
)
def test_what_a_client_takes_is_json_and_streams(accept: str, takes: tuple[bool, bool]) -> None:
    assert check_accept_headers(Request(scope("POST", "/mcp", {"accept": accept}))) == takes


def test_how_long_a_body_may_be_can_be_told() -> None:
    server = serving()
    server.streamable_http_app(max_request_body_size=1000)
    assert server.session_manager.max_request_body_size == 1000


async def test_a_body_that_is_longer_is_refused() -> None:
    app = serving().streamable_http_app(max_request_body_size=10)
    async with app.router.lifespan_context(app), exchange(app, "POST", "/mcp", POST, {"long": "x" * 10}) as sending:
        assert (await sending.head())[0] == 413


def test_a_version_belongs_to_one_generation() -> None:
    assert {EARLIER, OLDER} <= set(HANDSHAKE_PROTOCOL_VERSIONS)
    assert NEWER in MODERN_PROTOCOL_VERSIONS
    assert not set(HANDSHAKE_PROTOCOL_VERSIONS) & set(MODERN_PROTOCOL_VERSIONS)


@pytest.mark.parametrize("version", [None, *HANDSHAKE_PROTOCOL_VERSIONS])
async def test_a_header_with_an_older_version_or_none_leads_to_the_handshake(version: str | None) -> None:
    async def look(ctx: RequestContext, params: RequestParams) -> HandlerResult:
        return {"version": ctx.protocol_version}

    app = serving(look).streamable_http_app(stateless_http=True, json_response=True)
    headers = POST if version is None else {**POST, "mcp-protocol-version": version}
    message = {"jsonrpc": "2.0", "id": 1, "method": METHOD}
    async with app.router.lifespan_context(app), exchange(app, "POST", "/mcp", headers, message) as sending:
        assert (await sending.head())[0] == 200
        found = json.loads(await sending.body())["result"]["version"]
    assert found in HANDSHAKE_PROTOCOL_VERSIONS
    assert version is None or found == version


@pytest.mark.parametrize("name", ["another", None])
async def test_the_name_of_a_task_in_the_header_is_for_us_to_judge(name: str | None) -> None:
    async def look(ctx: RequestContext, params: RequestParams) -> HandlerResult:
        assert ctx.request is not None
        return {"name": ctx.request.headers.get(MCP_NAME_HEADER)}

    server = serving(bindings=[MethodBinding("tasks/get", RequestParams, look)])
    client = Client(NEWER, headers={} if name is None else {"mcp-name": name})
    async with over_http(server, client) as peer:
        assert (await peer.result("tasks/get", {"taskId": "t"}))["name"] == name


def test_a_header_is_decoded_as_the_protocol_has_it() -> None:
    assert decode_header_value(None) is None
    assert decode_header_value("plain") == "plain"
    assert decode_header_value("=?base64?w6Q=?=") == "ä"
    assert HEADER_MISMATCH == -32020


@pytest.mark.parametrize("value", ["=?base64?%?=", "=?base64?/w==?="], ids=["no base64", "no text"])
def test_a_header_that_cannot_be_decoded_is_no_name(value: str) -> None:
    assert decode_header_value(value) is None


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {PROTOCOL_VERSION_META_KEY: NEWER},
        {PROTOCOL_VERSION_META_KEY: NEWER, CLIENT_CAPABILITIES_META_KEY: 1},
        {PROTOCOL_VERSION_META_KEY: NEWER, CLIENT_CAPABILITIES_META_KEY: {}, "progressToken": []},
    ],
)
def test_an_envelope_that_is_wrong_can_be_told_by_a_request_without_params(meta: dict[str, Any]) -> None:
    validate_client_request(
        "tools/list", NEWER, {"_meta": {PROTOCOL_VERSION_META_KEY: NEWER, CLIENT_CAPABILITIES_META_KEY: {}}}
    )
    with pytest.raises(ValidationError):
        validate_client_request("tools/list", NEWER, {"_meta": meta})
