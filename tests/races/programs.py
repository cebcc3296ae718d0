"""The servers that are killed: one that knows its callers, one that does not, and one that asks for ids alone."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from typing import Any

from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context
from pydantic import AnyHttpUrl, BaseModel

from coatcheck import Policy
from coatcheck.server import TaskContext, TaskPolicy, TaskServer

USERS = ("ann", "bob")
RESUMABLE = TaskPolicy("optional", resumable=True)
IMPATIENT = TaskPolicy("optional", resumable=True, promote_after=0.2)


class Name(BaseModel):
    name: str


class Verifier:
    """A token is the name of its user."""

    async def verify_token(self, token: str) -> AccessToken | None:
        if token not in USERS:
            return None
        claims = {"iss": "https://issuer.example"}
        return AccessToken(token=token, client_id="app", scopes=[], subject=token, claims=claims)


async def hold(task: TaskContext) -> list[int]:
    """Hang at the first attempt; at the next one, tell which processes did what."""
    first = await task.step("first", os.getpid)
    if task.task.attempt == 1:
        print("holding", task.task.id, file=sys.stderr, flush=True)
        await asyncio.Event().wait()
    return [first, os.getpid()]


async def ask(task: TaskContext, ctx: Context) -> str:
    """Ask a person, and tell in which process the question was first asked, and in which it was answered."""
    first = await task.step("first", os.getpid)
    answer = await ctx.elicit("Who?", Name)
    name = answer.data.name if answer.action == "accept" else answer.action
    return f"{name}, asked by {first}, told {os.getpid()}"


def _build(name: str, **options: Any) -> TaskServer:
    server = TaskServer(name, version="1", policy=Policy(lease=timedelta(seconds=2)), grace=0.1, **options)
    server.add_tool(hold, "sturdy", task=RESUMABLE)
    server.add_tool(hold, "fragile", task=True)
    server.add_tool(hold, "slow", task=IMPATIENT)
    server.add_tool(ask, task=RESUMABLE)
    return server


guarded = _build(
    "guarded",
    token_verifier=Verifier(),
    auth=AuthSettings(
        issuer_url=AnyHttpUrl("https://issuer.example"),
        resource_server_url=AnyHttpUrl("http://127.0.0.1:8000/mcp"),
        validate_token_resource=False,
    ),
)
anonymous = _build("anonymous")
unbound = _build("unbound", bind_sessions=False)
