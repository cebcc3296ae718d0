"""One client over stdin and stdout, and a clean stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

import uvloop
from mcp.server.mcpserver import MCPServer

from coatcheck.server.tasks import tasks_of

_LOOK_SECONDS = 0.01
_LAST_SECONDS = 0.2
"""For what a server does after its tasks have ended; its stdin may never be let go of."""


def serve_stdio(server: MCPServer[Any]) -> int:
    """Serve until the client hangs up or the process is told to stop; return the exit code."""
    with suppress(asyncio.CancelledError, KeyboardInterrupt):
        uvloop.run(_serve(server))
    _leave()


def _leave() -> NoReturn:
    """End the process: a thread of the SDK may still be reading from stdin, and would be waited for."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


async def _serve(server: MCPServer[Any]) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    serving = asyncio.create_task(server.run_stdio_async())
    told = asyncio.create_task(stopping.wait())
    await asyncio.wait((serving, told), return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        serving.result()
        return
    serving.cancel()
    tasks = tasks_of(server)
    while tasks and tasks.is_running and not serving.done():
        await asyncio.wait((serving,), timeout=_LOOK_SECONDS)
    await asyncio.wait((serving,), timeout=_LAST_SECONDS)
    _leave()
