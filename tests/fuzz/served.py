"""The servers under fire, and the tasks that are there when it begins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import cache
from types import SimpleNamespace
from typing import Annotated, Any, cast

import mcp_types as types
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from pydantic import AnyHttpUrl, BaseModel
from starlette.applications import Starlette
from starlette.requests import Request

from coatcheck import Engine, Policy, Task, Terms
from coatcheck.answers import elicitation_answer, request_of
from coatcheck.errors import Refused, TaskNotFound
from coatcheck.lifecycle import Completed, Failed, InputRequested
from coatcheck.payload import encode
from coatcheck.server import TaskPolicy, TaskServer
from coatcheck.server.identity import Identity
from coatcheck.task import Failure, InputRequest
from tests.fuzz.messages import Targets

SECRET = "cf83e1357eefb8bd-secret"
"""Is in every task that its attackers may not see, and in nothing they send."""
DAY = timedelta(days=1)
POLICY = Policy(ttl=DAY, max_ttl=7 * DAY, lease=DAY, patience=7 * DAY, quota=40)
USERS = {"token-of-alice": "alice", "token-of-bob": "bob"}
WORKER = "a worker elsewhere"
_CONTENT = {"type": "object", "required": ["number"], "properties": {"number": {"type": "integer"}}}


class Number(BaseModel):
    number: int


class Verifier:
    async def verify_token(self, token: str) -> AccessToken | None:
        user = USERS.get(token)
        return AccessToken(token=token, client_id="client", scopes=[], subject=user) if user else None


def a_server(store: str, *, is_authenticated: bool = False) -> TaskServer:
    options: dict[str, Any] = {}
    if is_authenticated:
        issuer = AnyHttpUrl("https://issuer.example")
        options = {"token_verifier": Verifier(), "auth": AuthSettings(issuer_url=issuer, resource_server_url=None)}
    made = TaskServer("fuzz", store=store, policy=POLICY, max_unfinished=300, log_level="ERROR", **options)
    made.add_tool(take, task="optional")
    made.add_tool(ask, task="optional")
    made.add_tool(must, task="required")
    made.add_tool(named, task="required")
    made.add_tool(plain)
    for tool in (sample, roots, count, fails):
        made.add_tool(tool, task="optional")
    made.add_tool(linger, task=TaskPolicy("optional", promote_after=0.01))
    return made


async def take(value: Any = None) -> str:
    return "taken"


async def ask(ctx: Context, value: Any = None) -> str:
    await ctx.elicit("Which number?", Number)
    return "asked"


def must(value: str, count: int = 1) -> dict[str, Any]:
    return {"value": value, "count": count}


def ask_for_number() -> Elicit[Number]:
    return Elicit("Which number?", Number)


async def named(number: Annotated[Number, Resolve(ask_for_number)], value: Any = None) -> str:
    return f"{number.number}"


def plain(value: str) -> str:
    return value


async def sample(ctx: Context, value: Any = None) -> str:
    said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Which number?"))
    request = types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[said], max_tokens=10))
    return str((await ctx.session.send_request(request, types.CreateMessageResult)).model)


async def roots(ctx: Context, value: Any = None) -> int:
    return len((await ctx.session.send_request(types.ListRootsRequest(), types.ListRootsResult)).roots)


async def count(ctx: Context, value: Any = None) -> int:
    for number in range(3):
        await ctx.report_progress(number, 3, f"{value}"[:50])
    return 3


async def fails(value: Any = None) -> None:
    if isinstance(value, str):
        raise MCPError(-32000, "A failure", {"value": value})
    raise ToolError("A failure")


async def linger(value: Any = None) -> None:
    await asyncio.Event().wait()


def owner(user: str | None) -> str | None:
    """Return a user as an owner: the SDK's principal of client, issuer and subject."""
    return None if user is None else f'["client",null,"{user}"]'


ALICE = [f"{owner('alice')}"]
"""All there is besides the attacker."""


def owner_in(session: str) -> str:
    """Return a session without a principal as an owner."""
    asked = Request({"type": "http", "headers": [(b"mcp-session-id", session.encode())]})
    said_hello = SimpleNamespace(client_params=object())
    ctx = SimpleNamespace(request=asked, protocol_version="2025-11-25", session=said_hello)
    found = Identity().owner_of(cast("Any", ctx))
    assert found
    return found


@asynccontextmanager
async def running(app: Starlette) -> AsyncGenerator[Starlette]:
    async with app.router.lifespan_context(app):
        yield app


async def a_task(engine: Engine, whose: str | None, secret: str = "", ttl: timedelta = DAY) -> Task:
    """Submit a task that no worker of ours takes."""
    arguments, meta = {"value": f"argument {secret}"}, {"note": secret}
    return await engine.submit("elsewhere", arguments, owner=whose, terms=Terms(ttl=ttl), meta=meta)


async def a_held_task(engine: Engine, whose: str | None, secret: str = "") -> Task:
    return (await engine.claim([await a_task(engine, whose, secret)], WORKER))[0]


async def an_asking_task(engine: Engine, whose: str | None, secret: str = "") -> Task:
    held, question = await a_held_task(engine, whose, secret), a_question(secret)
    return await engine.report(held, InputRequested(1, {"a": question, "b": question}, DAY))


@cache
def a_question(secret: str) -> InputRequest:
    """Return what such a task asks: always the same, as a schema takes longer to check than a message to answer."""
    params = {"message": f"question {secret}", "requestedSchema": _CONTENT}
    return request_of("elicitation/create", params, elicitation_answer(_CONTENT))


async def every_kind(engine: Engine, whose: str | None, secret: str = "") -> list[Task]:
    """Return a task of each status, the last three ended."""
    asking = await an_asking_task(engine, whose, secret)
    waiting, held = await a_task(engine, whose, secret), await a_held_task(engine, whose, secret)
    result = {"content": [{"type": "text", "text": f"result {secret}"}], "isError": False, "big": 2**70}
    return [
        waiting,
        held,
        asking,
        await engine.report(await a_held_task(engine, whose, secret), Completed(1, encode(result))),
        await engine.report(
            await a_held_task(engine, whose, secret), Failed(1, Failure(message=f"failure {secret}", code=-32000))
        ),
        await engine.cancel((await a_task(engine, whose, secret)).id, whose, f"reason {secret}"),
    ]


async def populate(
    engine: Engine, me: str | None, others: Sequence[str], *, can_list: bool = False
) -> tuple[Targets, list[Task]]:
    """Return what an attacker has and knows, and the rows that nothing may change; all are named as owners.

    `can_list`: the attacker can see all tasks of its own, so there is no secret in any of them.
    """
    mine = await every_kind(engine, me)
    quiet = await every_kind(engine, me, "" if can_list else SECRET)
    foreign = [task for other in others for task in await every_kind(engine, other, SECRET)]
    expired = await a_task(engine, me, SECRET, timedelta(microseconds=1))
    targets = Targets(
        open=[task.id for task in mine[:3]],
        ended=[task.id for task in mine[3:]],
        expired=[expired.id],
        foreign=[task.id for task in foreign],
        guessed=[task.id for task in quiet],
    )
    return targets, [*mine[3:], *quiet, *foreign]


async def stop(engine: Engine, whose: str | None) -> None:
    """Cancel and forget all tasks of an owner, as otherwise the server would wait for them in the end."""
    for task in await engine.list(whose, limit=1000):
        with suppress(Refused, TaskNotFound):
            await engine.cancel(task.id, whose)
    for task in await engine.list(whose, limit=1000):
        await engine.forget(task)
    await engine.sweep()  # what has expired is no longer listed, but still waited for


server = a_server("memory://")
