"""The tools on FastMCP at its best, for an interpreter that has it: `python fastmcp_server.py PORT`."""
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUntypedFunctionDecorator=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

import fastmcp
import uvicorn
from fastmcp import FastMCP
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension

# At its best, as far as its settings go. What was tried took turns with the rest, on a busy machine:
# - memory://: nothing is kept on disk and no trip is made to a Redis (not measured: it can only be less work);
# - concurrency: its default of 10 costs 32 clients a sixth or more; beyond 32 it changes nothing for them, and
#   each sleeping `nap` takes a slot;
# - minimum_check_interval: 1, 5, 50 and 250 ms are alike, as a new task wakes the worker; 50 ms is its default;
# - json_response and httptools: a poll takes about a fifth less of the processor than with event streams, or with h11;
# - stateless_http, uvloop in place of asyncio, telemetry off: no difference beyond the noise. asyncio was a tenth
#   better for tasks polled every 20 ms, and as much worse for polls;
# - logs off (not measured).
fastmcp.settings.telemetry_mode = "off"
fastmcp.settings.log_enabled = False
server = FastMCP("bench")
server.add_extension(
    TasksExtension(url="memory://", concurrency=20_000, minimum_check_interval=timedelta(milliseconds=50))
)
_as_task = TaskConfig(mode="required", poll_interval=timedelta(milliseconds=100))
_sleeping = 0


@server.tool
async def plain(a: int, b: int) -> int:
    return a + b


@server.tool(task=_as_task)
async def noop() -> str:
    return "done"


@server.tool(task=_as_task)
async def nap(seconds: float) -> str:
    global _sleeping
    _sleeping += 1
    try:
        await asyncio.sleep(seconds)
    finally:
        _sleeping -= 1
    return "rested"


@server.tool
async def running() -> int:
    return _sleeping


if __name__ == "__main__":
    uvicorn.run(
        server.http_app(json_response=True, stateless_http=True),
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        ws="none",
        log_config=None,
        access_log=False,
    )
