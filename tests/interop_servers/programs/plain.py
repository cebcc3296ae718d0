"""A server on the SDK of this environment that knows no tasks: `stdio`, or `http` and a port."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("plain")


class Person(BaseModel):
    name: str


def who() -> Elicit[Person]:
    return Elicit("What is your name?", Person)


def something() -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text="Say something"))], max_tokens=10)


@server.tool()
async def add(a: int, b: int) -> int:
    return a + b


@server.tool()
async def slow(seconds: float, ctx: Context) -> str:
    """Say how far it is, ten times."""
    for step in range(10):
        await ctx.report_progress(step + 1, 10, f"Step {step + 1} of 10")
        await asyncio.sleep(seconds / 10)
    return f"It took {seconds} seconds"


@server.tool()
async def ask(person: Annotated[Person, Resolve(who)]) -> str:
    return f"Hello, {person.name}!"


@server.tool()
async def sample(said: Annotated[CreateMessageResult, Resolve(something)]) -> str:
    assert isinstance(said.content, TextContent)
    return f"It said: {said.content.text}"


@server.tool()
async def fail() -> str:
    raise ToolError("This tool always fails")


@server.tool()
async def break_protocol() -> str:
    raise MCPError(code=-32050, message="This tool never has a result", data={"why": "it was made so"})


@server.tool()
async def die() -> str:
    """Take the server down in the middle of a call."""
    os._exit(3)


if __name__ == "__main__":
    if sys.argv[1] == "http":
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
