"""Two tools on FastMCP with its tasks in Redis, at its best: `python fastmcp_redis_server.py PORT REDIS_URL`."""
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

# As in fastmcp_server.py, and what a Redis needs besides:
# - concurrency: with all slots taken its worker looks again only every `minimum_check_interval`, which caps it at their
#   quotient: 200/s with its defaults of 10 and 50 ms. 64 slots for 32 clients are never all taken;
# - max_connections: redis-py's 100 are too few for 100 slots and more; here they cannot run out;
# - hiredis, which redis-py takes where it finds it.
_CONCURRENCY, _CHECK_INTERVAL, _CONNECTIONS = 64, timedelta(milliseconds=10), 1000
fastmcp.settings.telemetry_mode = "off"
fastmcp.settings.log_enabled = False
server = FastMCP("bench")
_as_task = TaskConfig(mode="required", poll_interval=timedelta(milliseconds=100))


@server.tool(task=_as_task)
async def noop() -> str:
    return "done"


@server.tool(task=_as_task)
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"


if __name__ == "__main__":
    server.add_extension(
        TasksExtension(
            url=f"{sys.argv[2]}?max_connections={_CONNECTIONS}",
            concurrency=_CONCURRENCY,
            minimum_check_interval=_CHECK_INTERVAL,
        )
    )
    uvicorn.run(
        server.http_app(json_response=True, stateless_http=True),
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        ws="none",
        log_config=None,
        access_log=False,
    )
