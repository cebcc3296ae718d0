"""Who called is known to a tool that runs long after the call, as it was in the call; only the token is gone."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken

from tests.access.people import callers, guarded
from tests.requirements.marks import requirement

pytestmark = pytest.mark.anyio


def _whoami() -> dict[str, Any]:
    token = _token()
    return {"client": token.client_id, "subject": token.subject, "scopes": token.scopes, "claims": token.claims}


def _token() -> AccessToken:
    token = get_access_token()
    assert token
    return token


@requirement("E-051")
async def test_a_task_knows_who_made_it() -> None:
    server = guarded()

    @server.tool(task=True)
    async def later() -> dict[str, Any]:
        return {**_whoami(), "token": _token().token}

    @server.tool()
    async def now() -> dict[str, Any]:
        return _whoami()

    async with callers(server) as (ann, bob, _):
        for caller, name in ((ann, "ann"), (bob, "bob")):
            task_id = await caller.hand_in("later")
            engine = server.tasks.running.engine
            owner = f'["app","https://issuer.example","{name}"]'
            await engine.finished(await engine.get(task_id, owner), 20)
            said = (await caller.get(task_id))["result"]["structuredContent"]
            assert said.pop("token") == ""
            assert said == (await caller.call("now"))["structuredContent"]
            assert said["subject"] == name


async def test_the_token_itself_is_not_kept() -> None:
    server = guarded()

    @server.tool(task=True)
    async def later() -> str:
        return "done"

    async with callers(server) as (ann, _, _eve):
        await ann.hand_in("later")
        (task,) = await server.tasks.running.engine.list_all()
        assert b'"subject":"ann"' in bytes(task.call.meta)
        assert b'"token":""' in bytes(task.call.meta)
