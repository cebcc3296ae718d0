"""The servers these tests serve: two with tasks, one with tasks as an extension, and one without any."""

import asyncio
import os

from mcp.server.mcpserver import MCPServer

from coatcheck.server import TaskContext, TaskPolicy, Tasks, TaskServer

HOLDING = "Holding"
QUICK = TaskPolicy(poll_interval=0.02)

server = TaskServer("cli", version="1.2", task=QUICK)
hasty = TaskServer("hasty", task=QUICK, grace=0.5)
"""Does not wait long for what runs when it stops."""
extension = Tasks(default=QUICK)
extended = MCPServer("extended", extensions=[extension], lifespan=extension.lifespan)
plain = MCPServer("plain")


@server.tool()
@plain.tool()
async def process() -> int:
    """Say which process serves this call."""
    return os.getpid()


@server.tool(task="required")
async def worker() -> int:
    """Say which process carries out this task."""
    return os.getpid()


@server.tool(task=TaskPolicy("required", resumable=True))
@hasty.tool(task=TaskPolicy("required", resumable=True))
async def resumable(task: TaskContext) -> list[int]:
    """Hold at the first attempt; go on at the second."""
    return await _hold_once(task)


@server.tool(task="required")
@hasty.tool(task="required")
async def fragile(task: TaskContext) -> list[int]:
    """Hold, and do not outlive it."""
    return await _hold_once(task)


@extended.tool()
@extension.tool("required")
async def endless(task: TaskContext) -> None:
    """Hold for ever."""
    await task.note(HOLDING)
    await asyncio.Event().wait()


async def _hold_once(task: TaskContext) -> list[int]:
    before = await task.step("before", os.getpid)
    await task.note(HOLDING)
    if task.task.attempt == 1:
        await asyncio.Event().wait()
    return [before, await task.step("after", os.getpid)]
