"""FastMCP's proxy, for an interpreter that has it: `python fastmcp_proxy.py PORT STRATEGY UPSTREAM`.

The upstream is a URL, or a command and its arguments.
"""
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import ssl
import sys
from contextlib import AsyncExitStack

import fastmcp
import uvicorn
import uvloop
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.server import create_proxy

# At its best, as far as its settings go. What was tried, on a busy machine:
# - "shared", a client that is connected already: one session upstream for everybody. Its documents warn that requests
#   may get each other's context; it is the fastest there is, 5 to 10 ms a call where a session for each takes 15 to 25;
# - "fresh", what its documents advise: a session upstream for each request. The SSL context is made once, although
#   the upstream has no use for one: left to its defaults it is made anew for each request, which takes 60 to 120 ms;
# - over stdio the process stays in either case, and they are alike;
# - stateless_http: no difference beyond the noise; it is off, so that clients of 2025-11-25 have sessions;
# - uvloop, httptools, json_response, telemetry and logs off: as in fastmcp_server.py.
fastmcp.settings.telemetry_mode = "off"
fastmcp.settings.log_enabled = False


async def main(port: int, strategy: str, first: str, *rest: str) -> None:
    async with AsyncExitStack() as stack:
        if rest:
            target = StdioTransport(first, list(rest))
        else:
            target = StreamableHttpTransport(first, verify=ssl.create_default_context())
        if strategy == "shared":
            target = await stack.enter_async_context(Client(target))
        app = create_proxy(target, name="bench").http_app(json_response=True)
        config = uvicorn.Config(app, port=port, http="httptools", ws="none", log_config=None, access_log=False)
        await uvicorn.Server(config).serve()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), *sys.argv[2:]))
