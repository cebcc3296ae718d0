"""The plain tool on the SDK alone, served as coatcheck serves: `python -m benchmarks.servers.bare_server PORT`.

Without a port it is on stdin and stdout, behind a proxy or in its place.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import uvicorn
import uvloop
from mcp.server.mcpserver import MCPServer

server: MCPServer[Any] = MCPServer("bench")


@server.tool()
async def plain(a: int, b: int) -> int:
    return a + b


if __name__ == "__main__":
    # Its log of every request at INFO would cost it time that is not the SDK's.
    logging.getLogger().setLevel(logging.WARNING)
    if len(sys.argv) == 1:
        uvloop.run(server.run_stdio_async())
        sys.exit()
    uvicorn.run(
        server.streamable_http_app(json_response=True),
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        ws="none",
        log_config=None,
        access_log=False,
    )
