"""A server that is a process: it says which one, and what it was given; and what it is told it says on stderr."""

from __future__ import annotations

import os
import sys
from typing import Any

from mcp.server.mcpserver import MCPServer

server = MCPServer[Any]("child")


@server.tool()
async def who() -> str:
    return str(os.getpid())


@server.tool()
async def given(variable: str) -> str:
    return f"{os.environ.get(variable)} in {os.getcwd()} with {sys.argv[1:]}"


@server.tool()
async def shout(words: list[str]) -> str:
    for word in words:
        print(word, file=sys.stderr, flush=True)
    return "It was said"


if __name__ == "__main__":
    server.run("stdio")
