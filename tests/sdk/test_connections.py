"""What tells requests of one connection from those of another, and what a request says of its client."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref
from functools import partial
from typing import Any

import pytest
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.context import CallNext, HandlerResult
from mcp.server.mcpserver import MCPServer, authenticated_principal, require_client_extension
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    RequestParams,
)
from pydantic import AnyHttpUrl

from tests.sdk.asgi import exchange
from tests.sdk.peer import EARLIER, NEWER, OLDER, Client, Json
from tests.sdk.probe import EXTENSION, METHOD, RequestContext, serving
from tests.sdk.transports import Way, another, on_streams, over_http

pytestmark = pytest.mark.anyio

stateless = partial(over_http, stateless_http=True)


class Contexts:
    """A handler that remembers what it was called with."""

    def __init__(self) -> None:
        self.seen: list[RequestContext] = []

    async def __call__(self, ctx: RequestContext, params: RequestParams) -> HandlerResult:
        self.seen.append(ctx)
        return {}


# The client's own words


async def test_what_a_client_said_of_itself_is_one_object_for_all_its_requests(older: Way) -> None:
    contexts = Contexts()
    async with older(serving(contexts)) as peer:
        await peer.result(METHOD)
        await peer.result(METHOD)
    first, second = (ctx.session.client_params for ctx in contexts.seen)
    assert first is not None
    assert first is second


@pytest.mark.parametrize("json_response", [False, True])
async def test_of_two_clients_that_say_the_same_each_has_its_own(json_response: bool) -> None:
    contexts = Contexts()
    server = serving(contexts)
    app = server.streamable_http_app(json_response=json_response)
    async with (
        app.router.lifespan_context(app),
        another(app, Client()) as one,
        another(app, Client()) as other,
    ):
        await one.result(METHOD)
        await other.result(METHOD)
    first, second = (ctx.session.client_params for ctx in contexts.seen)
    assert first == second
    assert first is not second


async def test_it_can_be_remembered_for_as_long_as_the_connection_lives() -> None:
    contexts = Contexts()
    async with on_streams(serving(contexts), Client()) as peer:
        await peer.result(METHOD)
        client = weakref.ref(contexts.seen.pop().session.client_params)
        gc.collect()
        assert client() is not None
        await peer.result(METHOD)
        assert client() is contexts.seen.pop().session.client_params
    gc.collect()
    assert client() is None


async def test_what_a_client_said_can_be_written_down(older: Way) -> None:
    contexts = Contexts()
    declared: Json = {"elicitation": {"form": {}}, "tasks": {"requests": {"elicitation": {"create": {}}}}}
    async with older(serving(contexts), capabilities=declared) as peer:
        await peer.result(METHOD)
    client = contexts.seen[0].session.client_params
    assert client is not None
    said = client.model_dump(by_alias=True, mode="json", exclude_none=True)
    assert said["capabilities"] == declared
    assert said["clientInfo"] == {"name": "contract", "version": "1"}


async def test_the_handshake_of_an_older_client_declares_tasks(older: Way) -> None:
    contexts = Contexts()
    declared: Json = {"tasks": {"requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}}}}
    async with older(serving(contexts), capabilities=declared) as peer:
        await peer.result(METHOD)
    capabilities = contexts.seen[0].session.client_capabilities
    assert capabilities is not None
    assert capabilities.tasks is not None
    assert capabilities.tasks.requests is not None
    assert capabilities.tasks.requests.elicitation is not None
    assert capabilities.tasks.requests.elicitation.create is not None
    assert capabilities.tasks.requests.sampling is not None
    assert capabilities.tasks.requests.sampling.create_message is not None


async def test_every_request_of_a_newer_client_declares_extensions(newer: Way) -> None:
    contexts = Contexts()
    async with newer(serving(contexts), capabilities={"extensions": {EXTENSION: {}}}) as peer:
        await peer.result(METHOD)
        await peer.result(METHOD, {"_meta": {CLIENT_CAPABILITIES_META_KEY: {}}})
    first, second = (ctx.session.client_capabilities for ctx in contexts.seen)
    assert first is not None
    assert first.extensions == {EXTENSION: {}}
    assert second is not None
    assert not second.extensions


async def test_a_newer_client_need_not_say_who_it_is(newer: Way) -> None:
    contexts = Contexts()
    async with newer(serving(contexts)) as peer:
        await peer.result(METHOD)
        await peer.result(METHOD, {"_meta": {CLIENT_INFO_META_KEY: {"name": "contract", "version": "1"}}})
    first, second = (ctx.session.client_params for ctx in contexts.seen)
    assert first is None
    assert second is not None
    assert second.client_info.name == "contract"


async def test_without_sessions_nothing_is_known_of_an_older_client() -> None:
    contexts = Contexts()
    async with stateless(serving(contexts), Client(OLDER)) as peer:
        await peer.result(METHOD)
    assert contexts.seen[0].session.client_params is None
    assert contexts.seen[0].session.client_capabilities is None
    assert contexts.seen[0].protocol_version == OLDER


async def test_an_extension_that_was_not_declared_can_be_required(newer: Way) -> None:
    async def require(ctx: RequestContext, params: RequestParams) -> HandlerResult:
        require_client_extension(ctx, EXTENSION)
        return {}

    async with newer(serving(require)) as peer:
        refused = await peer.error(METHOD)
        await peer.result(METHOD, {"_meta": {CLIENT_CAPABILITIES_META_KEY: {"extensions": {EXTENSION: {}}}}})
    assert refused["code"] == MISSING_REQUIRED_CLIENT_CAPABILITY == -32021
    assert refused["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


# Wishes in a call


@pytest.mark.parametrize(
    ("wish", "fields", "ttl"),
    [({}, set[str](), None), ({"ttl": 5}, {"ttl"}, 5), ({"ttl": None}, {"ttl"}, None)],
    ids=["none", "given", "null"],
)
async def test_the_wish_for_a_task_reaches_an_interceptor(
    older: Way, wish: dict[str, Any], fields: set[str], ttl: int | None
) -> None:
    seen: list[CallToolRequestParams] = []

    async def intercept(params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        seen.append(params)
        return await call_next(ctx)

    async with older(serving(interceptor=intercept)) as peer:
        await peer.result("tools/call", {"name": "echo", "task": wish})
        await peer.result("tools/call", {"name": "echo"})
    asked, plain = seen
    assert asked.task is not None
    assert asked.task.model_fields_set == fields
    assert asked.task.ttl == ttl
    assert plain.task is None


@pytest.mark.parametrize("version", [EARLIER, NEWER])
async def test_where_there_is_no_such_wish_it_does_no_harm(version: str) -> None:
    async with on_streams(serving(), Client(version)) as peer:
        answer = await peer.result("tools/call", {"name": "echo", "task": {"ttl": 5}})
    assert answer["content"][0]["text"] == "nothing"


async def test_the_token_for_progress_is_in_the_meta(older: Way) -> None:
    contexts = Contexts()
    async with older(serving(contexts)) as peer:
        await peer.result(METHOD, {"_meta": {"progressToken": "p"}})
        await peer.result(METHOD, {"_meta": {"com.example/a": 1}})
        await peer.result(METHOD)
    with_token, without, with_none = (ctx.meta for ctx in contexts.seen)
    assert with_token is not None
    assert with_token.get("progress_token") == "p"
    assert without is not None
    assert without.get("progress_token") is None
    assert with_none is None


async def test_what_one_request_sets_in_its_context_no_other_sees(way: Way) -> None:
    variable: contextvars.ContextVar[str | None] = contextvars.ContextVar("probe", default=None)

    async def intercept(params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        if params.arguments == {"leave": True}:
            variable.set("left behind")
        return await call_next(ctx)

    server = serving(interceptor=intercept)

    @server.tool()
    async def look(leave: bool = False) -> str:
        return str(variable.get())

    async with way(server) as peer:
        assert (await peer.call("look", leave=True))["content"][0]["text"] == "left behind"
        assert (await peer.call("look"))["content"][0]["text"] == "None"


# Over HTTP


async def test_without_http_there_is_no_http_request() -> None:
    contexts = Contexts()
    async with on_streams(serving(contexts), Client()) as peer:
        await peer.result(METHOD)
    assert contexts.seen[0].request is None


@pytest.mark.parametrize("json_response", [False, True])
async def test_a_session_is_named_in_every_request_after_the_handshake(json_response: bool) -> None:
    named: dict[str, str | None] = {}

    async def look(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        assert ctx.request is not None
        named[ctx.method] = ctx.request.headers.get(MCP_SESSION_ID_HEADER)
        return await call_next(ctx)

    async with over_http(serving(middleware=[look]), Client(), json_response=json_response) as peer:
        await peer.result("tools/list")
    assert named["initialize"] is None
    assert named["tools/list"] == peer.session[MCP_SESSION_ID_HEADER]


async def test_without_sessions_none_is_named() -> None:
    contexts = Contexts()
    async with stateless(serving(contexts), Client()) as peer:
        await peer.result(METHOD)
    assert contexts.seen[0].request is not None
    assert peer.session == {}


async def test_the_oldest_transport_names_its_session_in_the_address() -> None:
    contexts = Contexts()
    server = serving(contexts)
    app = server.sse_app()
    headers = {"host": "127.0.0.1:8000", "content-type": "application/json", "accept": "text/event-stream"}
    async with exchange(app, "GET", "/sse", headers) as stream:
        assert (await stream.head())[0] == 200
        events = aiter(stream.events())
        address = (await anext(events)).decode()
        greeting = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": Client().greeting()}
        for message in (greeting, {"jsonrpc": "2.0", "id": 2, "method": METHOD}):
            async with exchange(app, "POST", address, headers, message) as posting:
                assert (await posting.head())[0] == 202
            await anext(events)
    assert contexts.seen[0].request is not None
    assert contexts.seen[0].request.query_params["session_id"] == address.partition("session_id=")[2]


def test_whether_there_are_sessions_is_known_once_there_is_an_application() -> None:
    server = serving()
    with pytest.raises(RuntimeError):
        _ = server.session_manager
    server.streamable_http_app()
    assert server.session_manager.stateless is False
    server.streamable_http_app(stateless_http=True)
    assert server.session_manager.stateless is True


# Who is authenticated


class Verifier:
    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id="app", scopes=[], subject=token.partition("-")[0])


def _guarded(contexts: Principals) -> MCPServer[Any]:
    url = AnyHttpUrl("http://127.0.0.1:8000/mcp")
    auth = AuthSettings(issuer_url=url, resource_server_url=url, validate_token_resource=False)
    return serving(contexts, token_verifier=Verifier(), auth=auth)


class Principals(Contexts):
    async def __call__(self, ctx: RequestContext, params: RequestParams) -> HandlerResult:
        """Tell who is known here, and in what a request leaves running."""
        principal = authenticated_principal(ctx)
        later = await asyncio.create_task(_principal(ctx))
        assert principal == later
        assert (principal is None) is (get_access_token() is None)
        return {"principal": principal}


async def _principal(ctx: RequestContext) -> str | None:
    return authenticated_principal(ctx)


@pytest.mark.parametrize("version", [OLDER, NEWER])
async def test_a_principal_is_the_same_for_all_tokens_of_a_user(version: str) -> None:
    found: dict[str, str] = {}
    app = _guarded(Principals()).streamable_http_app()
    async with app.router.lifespan_context(app):
        for token in ("ann-1", "ann-2", "bob"):
            async with another(app, Client(version, headers={"authorization": f"Bearer {token}"})) as peer:
                found[token] = (await peer.result(METHOD))["principal"]
    assert found["ann-1"] == found["ann-2"] != found["bob"]
    assert all(isinstance(principal, str) for principal in found.values())


async def test_where_nobody_is_authenticated_there_is_no_principal(way: Way) -> None:
    async with way(serving(Principals())) as peer:
        assert (await peer.result(METHOD))["principal"] is None
