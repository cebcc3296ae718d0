"""What other processes of these tests run: `python -m tests.server.programs STORE` on stdio, and a worker."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta

from mcp.server.mcpserver import Context
from pydantic import BaseModel

from coatcheck import Policy
from coatcheck.server import TaskContext, TaskPolicy, TaskServer

RESUMABLE = TaskPolicy("optional", resumable=True)


class Name(BaseModel):
    name: str


def say(*words: object) -> None:
    print(*words, flush=True)


async def where() -> int:
    """Tell which process does the work."""
    return os.getpid()


async def ask(ctx: Context) -> str:
    await ctx.report_progress(1, 2, "Asking")
    answer = await ctx.elicit("Who?", Name)
    return answer.data.name if answer.action == "accept" else answer.action


async def hang(task: TaskContext) -> list[int]:
    """Hang in the first process that gets this far; in any other, tell who did what."""
    first = await task.step("first", os.getpid)
    if first == os.getpid():
        say("hanging", task.task.id)
        await asyncio.Event().wait()
    return [first, os.getpid()]


def build(url: str, concurrency: int = 8) -> TaskServer:
    policy = Policy(lease=timedelta(seconds=2))
    server = TaskServer("shared", version="1", store=url, concurrency=concurrency, policy=policy)
    for tool in (where, ask):
        server.add_tool(tool, task=True)
    server.add_tool(ask, "ask_patiently", task=RESUMABLE)
    server.add_tool(hang, "fragile", task=True)
    server.add_tool(hang, "sturdy", task=RESUMABLE)
    return server


async def work(server: TaskServer) -> None:
    """Run tasks until there is nothing more to read."""
    async with server.tasks.lifespan(server):
        say("working", os.getpid())
        await asyncio.to_thread(sys.stdin.read)


def run(store: str) -> None:
    """Be a worker on a store."""
    asyncio.run(work(build(store)))


def serve(store: str) -> None:
    """Be a server on stdio."""
    build(store).run("stdio")


if __name__ == "__main__":
    serve(*sys.argv[1:])
