"""The servers under attack: `private` knows its callers by their tokens, `anyones` by their sessions or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.server.mcpserver import Context
from pydantic import BaseModel

from coatcheck import Policy, ToolFailed
from coatcheck.server import JWTVerifier, Rate, TaskContext, TaskServer, role, when


class Name(BaseModel):
    name: str


async def keep(secret: str) -> str:
    """Be done at once, with a result."""
    return f"kept {secret}"


async def endless(secret: str, task: TaskContext) -> None:
    """Say something and never end."""
    await task.progress(1, 2, f"busy with {secret}")
    await asyncio.Event().wait()


async def ask(secret: str, ctx: Context) -> str:
    """Ask, and return the answer."""
    answer = await ctx.elicit(f"Who knows {secret}?", Name)
    return answer.data.name if answer.action == "accept" else answer.action


async def fail(secret: str) -> None:
    """Fail, with an error of the protocol."""
    raise ToolFailed(f"broken by {secret}", -31000, {"secret": secret})


async def crash(secret: str) -> None:
    """Raise what nobody has thought of."""
    raise RuntimeError(f"crashed on {secret}")


async def pay(account: str) -> str:
    return f"paid from {account}"


async def seldom() -> str:
    return "as you wish"


async def text() -> str:
    return "for whom it may concern"


async def text_of(name: str) -> str:
    return f"for {name}"


def _server(name: str, **options: Any) -> TaskServer:
    server = TaskServer(name, version="1", policy=Policy(quota=None), **options)
    for tool in (keep, endless, ask, fail, crash):
        server.add_tool(tool, task="optional")
    return server


def private(tokens: JWTVerifier, **options: Any) -> TaskServer:
    server = _server("private", tokens=tokens, **options)
    own = when(lambda who, given: given["account"] == who.subject)
    server.add_tool(pay, "administer", task="optional", authorize=role("admin"))
    server.add_tool(pay, "pay", task="optional", authorize=role("payer") & own)
    server.add_tool(seldom, task="optional", rate=Rate(2, per=86_400))
    server.resource("books://public")(text)
    server.resource("books://ledger", authorize=role("admin"))(text)
    is_named = when(lambda who, given: given["name"] == who.subject)
    server.resource("books://of/{name}", authorize=is_named)(text_of)
    server.prompt("greet")(text)
    server.prompt("instruct", authorize=role("admin"))(text)
    return server


def anyones(**options: Any) -> TaskServer:
    return _server("anyones", **options)
