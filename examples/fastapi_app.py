"""A FastAPI application with MCP tools at /tools/mcp, for as many processes and hosts as share its store.

    COATCHECK_STORE=postgresql://app@db.internal/app COATCHECK_STATE_KEY=$(openssl rand -hex 32) \
        uvicorn examples.fastapi_app:app --workers 2 --timeout-graceful-shutdown 15
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from mcp.server.mcpserver import Context
from pydantic import BaseModel

from coatcheck.server import TaskContext, TaskPolicy, TaskServer, http_app

server = TaskServer("orders", task=TaskPolicy(poll_interval=0.5))
endpoint = http_app(server, server.tasks, stateless_http=bool(os.environ.get("STATELESS")))


class Approval(BaseModel):
    approved: bool


@server.tool(task=True)
async def ship(order: str, task: TaskContext) -> str:
    """Ship an order, step by step."""
    for number, step in enumerate(("picked", "packed", "handed over"), start=1):
        await task.progress(number, 3, f"{order} {step}")
    return f"{order} is on its way"


@server.tool(task=TaskPolicy(resumable=True))
async def refund(order: str, ctx: Context) -> str:
    """Refund an order, if somebody agrees."""
    answer = await ctx.elicit(f"Refund {order}?", Approval)
    return "refunded" if answer.action == "accept" and answer.data.approved else "left as it is"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    async with endpoint.router.lifespan_context(endpoint):
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/tools", endpoint)


@app.get("/process")
async def process() -> int:
    """Say which process this is."""
    return os.getpid()
