"""A server on the Python SDK 1.x that knows no tasks: `stdio`, or `http` and a port."""
# It runs where SDK 1.x is installed; here there is 2.x, which has other names.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUntypedFunctionDecorator=false, reportAttributeAccessIssue=false, reportUnknownParameterType=false
# pyright: reportMissingTypeArgument=false, reportMissingTypeStubs=false

from __future__ import annotations

import asyncio
import os
import sys

from mcp import McpError, types
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from pydantic import BaseModel

server = FastMCP(
    "plain-v1", host="127.0.0.1", port=int(sys.argv[2] if sys.argv[1] == "http" else 8000), log_level="ERROR"
)


class Person(BaseModel):
    name: str


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
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("What is your name?", Person)
    return f"Hello, {answer.data.name}!" if answer.action == "accept" else f"They chose to {answer.action}"


@server.tool()
async def sample(ctx: Context) -> str:
    said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Say something"))
    return f"It said: {(await ctx.session.create_message([said], max_tokens=10)).content.text}"


@server.tool()
async def fail() -> str:
    raise ToolError("This tool always fails")


@server.tool()
async def break_protocol() -> str:
    raise McpError(types.ErrorData(code=-32050, message="This tool never has a result"))


@server.tool()
async def die() -> str:
    """Take the server down in the middle of a call."""
    os._exit(3)


if __name__ == "__main__":
    server.run("streamable-http" if sys.argv[1] == "http" else "stdio")
