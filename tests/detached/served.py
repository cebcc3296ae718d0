"""A server whose tools are run in processes of their own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer

from coatcheck import TaskContext
from coatcheck.server import TaskMeta, TaskPolicy, TaskServer


@asynccontextmanager
async def lifespan(server: MCPServer[Any]) -> AsyncGenerator[dict[str, str]]:
    yield {"greeting": "hello"}


server = TaskServer("served", lifespan=lifespan, task=TaskPolicy(detached=True))


@server.tool(task=TaskPolicy("required", timeout=60))
async def whoami(name: str, ctx: Context[Any, Any], task: TaskContext) -> dict[str, Any]:
    """Tell whose task this is, and what the process has that runs it."""
    set_here = {key for key in os.environ if key.startswith("COATCHECK_")}
    return {
        "name": name,
        "greeting": ctx.request_context.lifespan_context["greeting"],
        "owner": task.task.owner,
        "pid": os.getpid(),
        "settings": sorted(set_here),
    }


@server.tool(task=True)
async def hold(gate: str, ctx: Context[Any, Any]) -> int:
    """Read from a pipe, which ends when somebody writes into it."""
    await ctx.report_progress(1, 2, f"held by {os.getpid()}")
    await asyncio.to_thread(Path(gate).read_bytes)
    return os.getpid()


@server.tool(task=TaskPolicy(detached=False))
async def here() -> int:
    """Tell which process this is."""
    return os.getpid()


@server.tool(task=True)
async def delegate(ctx: Context[Any, Any]) -> dict[str, Any]:
    """Have others tell which processes they are: one of the host, and one of its own."""
    here = await server.call_tool("here", {}, ctx, task_meta=TaskMeta())
    whoami = await server.call_tool("whoami", {"name": "x"}, ctx, task_meta=TaskMeta())
    told: Any = (await whoami).structured_content
    at_home: Any = (await here).structured_content
    return {"pid": os.getpid(), "here": at_home["result"], "whoami": told["pid"], "owner": told["owner"]}
