"""The server of the matrix, a tool for each mode and outcome, and its twin: the SDK alone with the same tools."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel

from coatcheck.server import TaskPolicy, TaskServer
from tests.matrix.table import MODES, OUTCOMES, PROTOCOL_ERROR, Outcome, tool_name

PROMPT = 0.05
"""Seconds after which a tool that never ends gives a client without tasks a ticket."""

Add = Callable[[Callable[..., Any], str, str], None]
"""Registers a function under a name, in a mode."""


class Name(BaseModel):
    name: str


class Journal:
    """What has happened to the calls of a server, by the label each was given."""

    def __init__(self) -> None:
        self._entries: defaultdict[str, list[str]] = defaultdict(list)
        self._news = asyncio.Event()

    def note(self, label: str, word: str) -> None:
        self._entries[label].append(word)
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def until(self, label: str, word: str) -> None:
        while word not in self._entries[label]:
            await self._news.wait()

    def read(self, label: str) -> list[str]:
        return self._entries[label]


def tasks() -> TaskServer:
    """Return a server that makes tasks of what may be one."""
    made = TaskServer("matrix", version="1", store="memory://", grace=0.1)

    def add(function: Callable[..., Any], name: str, mode: str) -> None:
        promptly = mode == "optional" and name == tool_name("optional", "cancelled")
        made.add_tool(function, name, task=TaskPolicy("optional", promote_after=PROMPT) if promptly else mode)

    _fill(add)
    return made


def sdk() -> MCPServer[Any]:
    """Return the twin: what it answers is what a plain call is answered."""
    made = MCPServer[Any]("matrix", version="1")
    _fill(lambda function, name, _: made.add_tool(function, name))
    return made


def _fill(add: Add) -> None:
    journal = Journal()
    for mode in MODES:
        for outcome in OUTCOMES:
            add(_tool(outcome, journal), tool_name(mode, outcome), mode)

    async def until(label: str, word: str) -> str:
        """Wait until this has happened to a call."""
        await journal.until(label, word)
        return word

    async def read(label: str) -> list[str]:
        """Tell what has happened to a call."""
        return journal.read(label)

    async def release(label: str) -> None:
        """Let a call go on that never would."""
        journal.note(label, "released")

    for function in (until, read, release):
        add(function, function.__name__, "forbidden")


def _tool(outcome: Outcome, journal: Journal) -> Callable[..., Any]:
    async def ok(label: str) -> str:
        journal.note(label, "begun")
        return f"{label} is done"

    async def is_error(label: str) -> CallToolResult:
        journal.note(label, "begun")
        return CallToolResult(content=[TextContent(text=f"{label} went wrong")], is_error=True)

    async def raises(label: str) -> str:
        journal.note(label, "begun")
        raise ValueError(f"{label} broke")

    async def protocol_error(label: str) -> str:
        journal.note(label, "begun")
        raise MCPError(PROTOCOL_ERROR, f"{label} is refused", {"label": label})

    async def cancelled(label: str) -> str:
        journal.note(label, "begun")
        try:
            await journal.until(label, "released")
        finally:
            journal.note(label, "ended")
        return f"{label} was released"

    async def asks(label: str, ctx: Context) -> str:
        journal.note(label, "begun")
        answer = await ctx.elicit(f"Who is {label} for?", Name)
        return f"{label} is for {answer.data.name}" if answer.action == "accept" else answer.action

    bodies: dict[Outcome, Callable[..., Any]] = {
        "ok": ok,
        "isError": is_error,
        "raises": raises,
        "protocol-error": protocol_error,
        "cancelled": cancelled,
        "asks": asks,
    }
    return bodies[outcome]


server = tasks()
twin = sdk()
