"""A server on the Python SDK 1.x that knows no tasks and asks in the middle of its work: at a port."""
# It runs where SDK 1.x is installed; here there is 2.x, which has other names.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUntypedFunctionDecorator=false, reportAttributeAccessIssue=false, reportUnknownParameterType=false
# pyright: reportMissingTypeArgument=false, reportMissingTypeStubs=false, reportUnknownArgumentType=false

from __future__ import annotations

import sys

from mcp import types
from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

from tests.client_faults.gate import visit

server = FastMCP("sdk-v1", host="127.0.0.1", port=int(sys.argv[1]), log_level="ERROR")


class Word(BaseModel):
    value: str


@server.tool()
async def interview(log: str, gate: int, questions: list[str], ctx: Context) -> str:
    await visit(gate, "began")
    answers = [(await ctx.elicit(question, Word)).data.value for question in questions]
    return " and ".join(answers)


@server.tool()
async def sample(ctx: Context) -> str:
    said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Say something"))
    return f"It said: {(await ctx.session.create_message([said], max_tokens=10)).content.text}"


@server.tool()
async def look_around(ctx: Context) -> str:
    return f"There is {', '.join(str(root.uri) for root in (await ctx.session.list_roots()).roots)}"


if __name__ == "__main__":
    server.run("streamable-http")
