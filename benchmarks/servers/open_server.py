"""A server of coatcheck that runs nothing, sweeps nothing, and binds no task to a session."""

from __future__ import annotations

from coatcheck.server import TaskServer

server = TaskServer("open", concurrency=0, bind_sessions=False)


@server.tool(task="required")
async def noop() -> str:
    return "done"
