"""One set of fixtures on two servers, the SDK's own and ours: `python -m tests.conformance.everything_server NAME`."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import uvicorn
from mcp.server import MCPServer

from coatcheck.server import TaskServer
from tests.conformance.fixtures import furnish, schema_tool

bare: MCPServer[Any] = MCPServer("everything", version="1", tools=[schema_tool()])
furnish(bare, bare.tool)

hooked = TaskServer("everything", version="1", tools=[schema_tool()], store="memory://")
furnish(hooked, hooked.tool)

offering = TaskServer("everything", version="1", tools=[schema_tool()], store="memory://")
"""Every tool of it may be a task, but only for those who say they know tasks."""
furnish(offering, partial(offering.tool, task="optional"))

SERVERS: dict[str, MCPServer[Any]] = {"bare": bare, "hooked": hooked, "offering": offering}

if __name__ == "__main__":
    # httptools, which is used where it is installed, leaves blanks at the end of header values; the suite tries them.
    uvicorn.run(SERVERS[sys.argv[1]].streamable_http_app(), port=0, http="h11")
