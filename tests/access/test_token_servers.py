"""A server whose callers show tokens of an issuer: `TaskServer(tokens=JWTVerifier(…))`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError

from coatcheck import InvalidArgument
from coatcheck.server import JWTVerifier, Principal, TaskServer, role
from tests.access.issuer import AUDIENCE, Issuer, an_issuer
from tests.requirements.marks import requirement
from tests.server.wire import OverHTTP, over_http

pytestmark = pytest.mark.anyio


@pytest.fixture
def issuer() -> Generator[Issuer]:
    with an_issuer() as served:
        served.describe()
        yield served


def guarded(issuer: Issuer, **options: Any) -> TaskServer:
    """Return a server that finds the issuer's keys by itself."""
    server = TaskServer("test", store="memory://", tokens=JWTVerifier(issuer.name, audience=AUDIENCE, **options))

    @server.tool(task=True)
    async def endless() -> None:
        await asyncio.Event().wait()

    return server


@requirement("S-069", "R-10")
async def test_a_task_belongs_to_client_and_subject_of_a_token_whatever_else_it_says(issuer: Issuer) -> None:
    server = guarded(issuer)
    async with over_http(server) as anyone:
        task_id = await anyone.again(token=issuer.token()).hand_in("endless")
        again = anyone.again(token=issuer.token(scope="more", jti="another token"))
        assert (await again.get(task_id))["status"] == "working"
        others: tuple[dict[str, Any], ...] = ({"sub": "bob"}, {"client_id": "else"}, {"sub": None}, {"client_id": None})
        for other in others:
            with pytest.raises(MCPError, match="not found"):
                await anyone.again(token=issuer.token(**other)).get(task_id)
        await again.cancel(task_id)


@requirement("S-069")
@pytest.mark.parametrize("claims", [{"exp": 1}, {"aud": "else"}, {"iss": "https://issuer.example"}], ids=str)
async def test_a_token_that_is_not_good_gets_nowhere(issuer: Issuer, claims: dict[str, Any]) -> None:
    async with over_http(guarded(issuer)) as anyone:
        caller = anyone.again(token=issuer.token(**claims))
        answer = await caller.post(caller.message("tools/list", {}))
    assert answer.status == 401
    assert json.loads(answer.body) == {"error": "invalid_token", "error_description": "Authentication required"}
    metadata = "https://books.example/.well-known/oauth-protected-resource/mcp"
    assert f'resource_metadata="{metadata}"' in answer.headers["www-authenticate"]


async def test_a_token_without_the_scopes_that_are_asked_for_is_not_enough(issuer: Issuer) -> None:
    async with over_http(guarded(issuer, scopes=["books"])) as anyone:
        caller = anyone.again(token=issuer.token(scope="else"))
        answer = await caller.post(caller.message("tools/list", {}))
        assert answer.status == 403
        assert json.loads(answer.body)["error"] == "insufficient_scope"
        caller = anyone.again(token=issuer.token(scope="else books"))
        await caller.cancel(await caller.hand_in("endless"))


async def test_rules_see_all_that_a_token_says(issuer: Issuer) -> None:
    server = guarded(issuer)
    seen: list[Principal] = []

    @server.tool(authorize=role("editor"))
    async def edit() -> str:
        return "edited"

    @server.tool(authorize=lambda who, _: not seen.append(who))
    async def look() -> str:
        return "done"

    async with over_http(server) as anyone:
        ann = anyone.again(token=issuer.token(roles=["editor"], scope="a b", tenant={"id": 7}))
        assert (await ann.call("edit"))["content"][0]["text"] == "edited"
        await ann.call("look")
        with pytest.raises(MCPError, match="You may not use the tool 'edit'"):
            await anyone.again(token=issuer.token()).call("edit")
    assert (seen[0].client, seen[0].issuer, seen[0].subject) == ("app", issuer.name, "ann")
    assert seen[0].scopes == {"a", "b"}
    assert seen[0].claims["tenant"] == {"id": 7}


def test_the_metadata_of_a_server_names_its_issuer_and_itself_to_the_letter() -> None:
    for name, audience in (("https://issuer.example", "https://books.example"), ("https://a.example/b/", AUDIENCE)):
        settings = JWTVerifier(name, audience=["books", audience], scopes=["read"]).settings
        said = json.loads(settings.model_dump_json())
        assert (said["issuer_url"], said["resource_server_url"]) == (name, audience)
        assert said["required_scopes"] == ["read"]
    assert JWTVerifier("https://issuer.example", audience="books").settings.resource_server_url is None


async def test_an_existing_server_takes_the_verifier_and_its_settings(issuer: Issuer) -> None:
    tokens = JWTVerifier(issuer.name, audience=AUDIENCE)
    server = MCPServer("test", token_verifier=tokens, auth=tokens.settings)
    app = server.streamable_http_app()
    async with app.router.lifespan_context(app):
        for token, status in ((issuer.token(), 200), (issuer.token(aud="else"), 401)):
            caller = OverHTTP(app, None, token=token)  # pyright: ignore[reportArgumentType]
            assert (await caller.post(caller.message("tools/list", {}))).status == status


@pytest.mark.parametrize("name", ["token_verifier", "auth", "auth_server_provider"])
def test_who_is_let_in_is_said_once(name: str) -> None:
    tokens = JWTVerifier("https://issuer.example", audience=AUDIENCE)
    given: Any = {"token_verifier": tokens, "auth": tokens.settings, "auth_server_provider": object()}
    with pytest.raises(InvalidArgument, match=f"leave {name}= out, or tokens="):
        TaskServer("test", tokens=tokens, **{name: given[name]})
