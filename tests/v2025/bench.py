"""A server with a tool of every kind, and what a test holds in its hands while they run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import CallToolResult, SamplingMessage, TextContent
from pydantic import AnyHttpUrl, BaseModel

from coatcheck.server import TaskContext, TaskServer
from coatcheck.server.policy import TaskWish

Asker = Context[Any, Any]
ANN: dict[str, Any] = {"action": "accept", "content": {"name": "Ann"}}
DECLINE: dict[str, Any] = {"action": "decline"}
SAID: dict[str, Any] = {"role": "assistant", "content": {"type": "text", "text": "Because"}, "model": "m"}
ROOTS: dict[str, Any] = {"roots": [{"uri": "file:///a"}]}
OPTIONS: dict[str, Any] = {"version": "1", "store": "memory://", "grace": 0.01, "fallback_tools": False}
"""Those for clients without tasks have tests of their own, and take half of the time to make."""
MODES: dict[str, TaskWish] = {"plain": False, "task_only": "required"}
"""Of the tools that are not optional."""


class Name(BaseModel):
    name: str


class Bench:
    """Its methods are the tools; a server has those that are named."""

    def __init__(self, *tools: str, **options: Any) -> None:
        self.server = TaskServer("test", **{**OPTIONS, **options})
        self.begun, self.go, self.stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.runs: list[str] = []
        """The tools whose body has begun, in order."""
        for tool in tools or ("add", "plain", "task_only", "wait"):
            self.server.add_tool(getattr(self, tool), tool, task=MODES.get(tool, "optional"))

    # Quick ones

    async def add(self, a: int, b: int = 1) -> int:
        self.runs.append("add")
        return a + b

    async def plain(self) -> str:
        self.runs.append("plain")
        return "plain"

    async def task_only(self) -> str:
        self.runs.append("task_only")
        return "as a task"

    async def complain(self) -> CallToolResult:
        texts = (TextContent(text="It is broken"), TextContent(text="Really"))
        return CallToolResult(content=[*texts], structured_content={"why": 7}, is_error=True)

    async def crash(self) -> str:
        raise ValueError("a secret")

    async def say_no(self) -> str:
        raise ToolError("No, said the tool")

    async def refuse(self) -> str:
        raise MCPError(-32050, "Too fast", {"retry": [1, None]})

    # Slow ones

    async def wait(self) -> str:
        self.begun.set()
        try:
            await self.go.wait()
            self.runs.append("waited")
        finally:
            self.stopped.set()
        return "waited"

    async def note(self, task: TaskContext) -> str:
        await task.note("Half done")
        await task.flush()
        self.begun.set()
        await self.go.wait()
        return "noted"

    async def give_up(self, ctx: Asker) -> str:
        """Ask, and take the question back when told to go on."""
        asking = asyncio.create_task(ctx.elicit("Who?", Name))
        await self.go.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        return (await ctx.elicit("Anybody?", Name)).action

    # Those that ask

    async def ask(self, ctx: Asker) -> str:
        self.runs.append("ask")
        answer = await ctx.elicit("Who?", Name)
        return answer.data.name if answer.action == "accept" else answer.action

    async def ask_and_wait(self, ctx: Asker) -> str:
        answer = await ctx.elicit("Who?", Name)
        self.begun.set()
        await self.go.wait()
        return answer.action

    async def ask_both(self, ctx: Asker) -> str:
        both = await asyncio.gather(ctx.elicit("First?", Name), ctx.elicit("Second?", Name))
        return " and ".join(answer.data.name if answer.action == "accept" else answer.action for answer in both)

    async def ask_in_turn(self, ctx: Asker) -> str:
        first = await ctx.elicit("First?", Name)
        second = await ctx.elicit("Second?", Name)
        return f"{first.action}, then {second.action}"

    async def ask_carefully(self, ctx: Asker) -> str:
        try:
            return (await ctx.elicit("Who?", Name)).action
        except MCPError as error:
            return f"{error.code}: {error.message} {error.error.data}"

    async def ask_url(self, ctx: Asker) -> str:
        return (await ctx.elicit_url("Sign in", "https://example.com/sign-in", "e-1")).action

    async def think(self, ctx: Asker) -> str:
        prompt = SamplingMessage(role="user", content=TextContent(text="Why?"))
        with pytest.warns(MCPDeprecationWarning):
            said = await ctx.session.create_message([prompt], max_tokens=9)  # pyright: ignore[reportDeprecated]
        assert isinstance(said.content, TextContent)
        return f"{said.content.text}, said {said.model}"

    async def look_around(self, ctx: Asker) -> str:
        with pytest.warns(MCPDeprecationWarning):
            found = await ctx.session.list_roots()  # pyright: ignore[reportDeprecated]
        return ", ".join(str(root.uri) for root in found.roots)


class Verifier:
    """Knows a user by the name before the dash, and lets an `app` of another name be another client."""

    async def verify_token(self, token: str) -> AccessToken | None:
        user, _, app = token.partition("-")
        if user == "nobody":
            return None
        claims = {"iss": "https://issuer.example"}
        return AccessToken(token=token, client_id=app or "app", scopes=[], subject=user, claims=claims)


def guarded(*tools: str, **options: Any) -> Bench:
    """Return a bench whose server knows its callers by their token."""
    settings = AuthSettings(
        issuer_url=AnyHttpUrl("https://issuer.example"),
        resource_server_url=AnyHttpUrl("http://127.0.0.1:8000/mcp"),
        validate_token_resource=False,
    )
    return Bench(*tools, token_verifier=Verifier(), auth=settings, **options)
