"""One client over stdin and stdout, and a clean stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import Any

import uvloop
from mcp.server.mcpserver import MCPServer


def serve_stdio(server: MCPServer[Any]) -> int:
    """Serve until the client hangs up or the process is told to stop; return the exit code."""
    with suppress(asyncio.CancelledError, KeyboardInterrupt):
        uvloop.run(_serve(server))
    # A thread of the SDK may still be reading from stdin, and would be waited for.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


async def _serve(server: MCPServer[Any]) -> None:
    serving = asyncio.current_task()
    assert serving
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    await server.run_stdio_async()
