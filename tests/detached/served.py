"""A server whose one tool is run in processes of their own."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.mcpserver import Context, MCPServer

from coatcheck import TaskContext
from coatcheck.server import TaskPolicy, TaskServer


@asynccontextmanager
async def lifespan(server: MCPServer[Any]) -> AsyncGenerator[dict[str, str]]:
    yield {"greeting": "hello"}


server = TaskServer("served", lifespan=lifespan)


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
