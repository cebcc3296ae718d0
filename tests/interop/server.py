"""The server that clients of 2025-11-25 are tried with: `coatcheck serve` serves it, over HTTP and over stdio."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from mcp import MCPError
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import SamplingMessage, TextContent
from pydantic import BaseModel

from coatcheck import Policy
from coatcheck.server import TaskServer

Asker = Context[Any, Any]

server = TaskServer("interop", version="1", store="memory://", policy=Policy(poll_interval=timedelta(milliseconds=100)))


class Name(BaseModel):
    name: str


@server.tool()
def greet(name: str) -> str:
    """Greet at once: this is never a task."""
    return f"Hello, {name}!"


@server.tool(task="optional")
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@server.tool(task="optional")
async def slow(seconds: float, ctx: Asker) -> str:
    """Take a while, and say how far it is."""
    for step in (1, 2, 3):
        await ctx.report_progress(step, 3, f"step {step}")
        await asyncio.sleep(seconds / 3)
    return f"It took {seconds} seconds"


@server.tool(task="optional")
async def ask(ctx: Asker) -> str:
    """Ask for a name."""
    answer = await ctx.elicit("What is your name?", Name)
    return f"Hello, {answer.data.name}!" if answer.action == "accept" else f"They chose to {answer.action}"


@server.tool(task="optional")
async def ask_twice(ctx: Asker) -> str:
    """Ask one question after the other."""
    first = await ctx.elicit("The first?", Name)
    second = await ctx.elicit("The second?", Name)
    return " and ".join(answer.data.name if answer.action == "accept" else "nobody" for answer in (first, second))


@server.tool(task="optional")
async def sample(ctx: Asker) -> str:
    """Let the client's model say something."""
    prompt = SamplingMessage(role="user", content=TextContent(text="Say something"))
    answer = await ctx.session.create_message([prompt], max_tokens=10)  # pyright: ignore[reportDeprecated]
    assert isinstance(answer.content, TextContent)
    return f"It said: {answer.content.text}"


@server.tool(task="optional")
async def fails() -> str:
    """Fail as tools do."""
    raise ToolError("This tool always fails")


@server.tool(task="optional")
async def protocol_error() -> str:
    """Fail as servers do."""
    raise MCPError(-32050, "This tool never has a result", {"why": "it was made so"})


@server.tool(task="required")
async def only_as_task(word: str) -> str:
    """Be a task or nothing."""
    return word.upper()
