"""Which generation of the protocol to speak to a server: the client's own, unless the server has tasks in the other.

A tool that asks in the middle of its work can do so in 2025-11-25 only, unless it asks in rounds, or in a task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mcp.shared.exceptions import MCPError

from coatcheck.client.connection import Connection, ConnectionLost
from coatcheck.client.tools import list_tools
from coatcheck.dialects import v2025
from coatcheck.errors import CannotConnect

_NEWEST = "auto"


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is known of how to speak to a server."""

    is_older: bool
    """Whether its client speaks a generation before 2026-07-28."""
    learned: dict[str, str]
    server: str
    wanted: str | None = None
    """What its entry says, which settles it."""


async def dial(make: Callable[[str], Connection], dialect: Dialect) -> Connection:
    """Open a connection.

    Raises:
        CannotConnect: There is none to be had.
    """
    if dialect.wanted or not dialect.is_older:
        return await _opened(make(dialect.wanted or _NEWEST))
    if known := dialect.learned.get(dialect.server):
        return await _opened(make(known))
    newest = await _opened(make(_NEWEST))
    if newest.is_modern and (older := await _tried(make(v2025.VERSION))):
        if older.has_tasks or not await _makes_tasks(newest):
            dialect.learned[dialect.server] = v2025.VERSION
            await newest.close()
            return older
        await older.close()
    dialect.learned[dialect.server] = _NEWEST
    return newest


async def _makes_tasks(connection: Connection) -> bool:
    """Whether calls may become tasks: a server may have tasks, but no tool for them, and say so."""
    if not connection.has_tasks:
        return False
    try:
        found = await list_tools(connection)
    except (MCPError, ConnectionLost):
        return True
    return any(tool.task_support != "forbidden" for tool in found.values())


async def _tried(connection: Connection) -> Connection | None:
    try:
        return await _opened(connection)
    except CannotConnect:
        return None


async def _opened(connection: Connection) -> Connection:
    await connection.open()
    return connection
