"""The server that the client is tried with; `make` for one in memory, `server` for the command line."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from mcp import MCPError
from mcp.server.mcpserver import Context
from mcp_types import SamplingMessage, TextContent
from pydantic import BaseModel

from coatcheck import Policy
from coatcheck.server import TaskServer

Asker = Context[Any, Any]
RUNS_VARIABLE = "COATCHECK_TEST_RUNS"
"""A file to which each run of `count` adds a line."""


class Name(BaseModel):
    name: str


class Point(BaseModel):
    x: int
    y: int


def make(store: str = "memory://", *, interval: float = 0.05) -> TaskServer:
    """Return a server whose tools wait for what the test does, and which does not wait for them when it stops."""
    policy = Policy(poll_interval=timedelta(seconds=interval), quota=None)
    server = TaskServer("client-tests", version="1", store=store, policy=policy, bind_sessions=False, grace=0.1)
    _add_quick(server)
    _add_gates(server)
    _add_askers(server)
    return server


def _add_quick(server: TaskServer) -> None:
    @server.tool(task=True)
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool(task=True)
    async def point(x: int, y: int) -> Point:
        return Point(x=x, y=y)

    @server.tool()
    async def at_once(word: str) -> str:
        return word

    @server.tool(task=True)
    def count(word: str) -> str:
        with Path(os.environ[RUNS_VARIABLE]).open("a") as runs:
            runs.write(f"{word}\n")
        return word

    @server.tool(task=True)
    async def fail() -> str:
        raise ValueError("It is not to be")

    @server.tool(task=True)
    async def refuse() -> str:
        raise MCPError(-32050, "Never", {"why": "so"})


def _add_gates(server: TaskServer) -> None:
    gates: dict[str, asyncio.Event] = {}

    async def through(name: str, ctx: Asker) -> str:
        await ctx.report_progress(1, 2, "at the gate")
        await gates.setdefault(name, asyncio.Event()).wait()
        return f"through {name}"

    @server.tool(task=True)
    async def gate(name: str, ctx: Asker) -> str:
        """Wait until `open_gate` is called."""
        return await through(name, ctx)

    @server.tool()
    async def plain_gate(name: str, ctx: Asker) -> str:
        return await through(name, ctx)

    @server.tool()
    async def open_gate(name: str) -> str:
        gates.setdefault(name, asyncio.Event()).set()
        return name


def _add_askers(server: TaskServer) -> None:
    @server.tool(task=True)
    async def greet(ctx: Asker) -> str:
        answer = await ctx.elicit("Who are you?", Name)
        return f"Hello, {answer.data.name}!" if answer.action == "accept" else answer.action

    @server.tool(task=True)
    async def greet_two(ctx: Asker) -> str:
        """Ask the same twice: they are two questions."""
        first = await ctx.elicit("Who are you?", Name)
        second = await ctx.elicit("Who are you?", Name)
        return " and ".join(answer.data.name if answer.action == "accept" else "" for answer in (first, second))

    @server.tool(task=True)
    async def think(ctx: Asker) -> str:
        message = SamplingMessage(role="user", content=TextContent(type="text", text="Say something"))
        said = await ctx.session.create_message([message], max_tokens=10)  # pyright: ignore[reportDeprecated]
        return said.content.text if isinstance(said.content, TextContent) else "?"


server = make()
