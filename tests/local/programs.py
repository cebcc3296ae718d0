"""A server whose process is killed while a parent of it waits for its children."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path

from mcp.server.mcpserver import Context

from coatcheck import Policy
from coatcheck.server import TaskPolicy, TaskServer
from tests.local.stage import TASK, Name, text_of

POLICY = Policy(lease=timedelta(seconds=2), max_losses=100)
RESUMABLE = TaskPolicy("optional", resumable=True)


def say(*words: object) -> None:
    print(*words, flush=True)


def _note(log: str, n: int) -> None:
    with Path(log).open("a") as lines:
        lines.write(f"{n}\n")


def build(url: str, log: str, *, holds: bool = False) -> TaskServer:
    """Return the server. If it `holds`, all children but the first wait to be killed."""
    server = TaskServer("family", store=url, policy=POLICY)

    @server.tool(task=RESUMABLE)
    async def work(n: int) -> int:
        _note(log, n)
        if holds and n > 0:
            say("holding", n)
            await asyncio.Event().wait()
        return n

    @server.tool(task=RESUMABLE)
    async def ask(n: int, ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Name)
        return f"{n}: {answer.data.name if answer.action == 'accept' else answer.action}"

    @server.tool(task="optional")
    async def fragile(n: int) -> int:
        say("holding", n)
        await asyncio.Event().wait()
        return n

    @server.tool(task=RESUMABLE)
    async def parent(ctx: Context, tool: str = "work", count: int = 3) -> list[str]:
        tasks = [await server.call_tool(tool, {"n": n}, ctx, task_meta=TASK) for n in range(count)]
        say("made", count)
        return [text_of(result) for result in await asyncio.gather(*(task.result() for task in tasks))]

    return server


async def serve(url: str, log: str, tool: str, count: int) -> None:
    """Hand in a parent, say its id, and run until killed."""
    async with build(url, log, holds=True).started() as server:
        task = await server.call_tool("parent", {"tool": tool, "count": count}, task_meta=TASK)
        say("task", task.id)
        await asyncio.Event().wait()


def run(url: str, log: str, tool: str, count: str) -> None:
    os.environ.pop("COATCHECK_STORE", None)
    asyncio.run(serve(url, log, tool, int(count)))
