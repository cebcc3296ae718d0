"""How many commands or statements a database server is sent."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Awaitable
from typing import Any

from redis.asyncio import Redis

from benchmarks.databases import Database, connected

_STATEMENT = re.compile(r"LOG:  (statement|execute)")


async def sent_during(database: Database, work: Awaitable[object]) -> int | None:
    """Do the work and return how much was sent to the server meanwhile; None where there is no server.

    What a script or a function does inside the server does not count.
    """
    match database.name:
        case "Redis":
            return await _commands(database, work)
        case "PostgreSQL":
            return await _statements(database, work)
        case _:
            await work
            return None


async def _commands(database: Database, work: Awaitable[object]) -> int:
    mark, client = uuid.uuid4().hex, Redis.from_url(database.address)
    async with client, client.monitor() as monitor:
        counting = asyncio.create_task(_count(monitor, mark))
        await client.echo(mark)
        await work
        await client.echo(mark)
        return await counting


async def _count(monitor: Any, mark: str) -> int:
    """Return how many commands come between the marks."""
    while mark not in (await monitor.next_command())["command"]:
        pass
    count = 0
    while mark not in (heard := await monitor.next_command())["command"]:
        count += heard["client_type"] != "lua"
    return count


async def _statements(database: Database, work: Awaitable[object]) -> int:
    mark = uuid.uuid4().hex
    async with connected(database.address) as db:
        await _log(db, "all")
        await db.execute(f"select '{mark}'")
        await work
        await db.execute(f"select '{mark}'")
        await _log(db, "none")
    _, said, _ = database.words().split(f"select '{mark}'")
    return len(_STATEMENT.findall(said)) - 1  # the second mark


async def _log(db: Any, which: str) -> None:
    """Have every connection log from its next statement on."""
    await db.execute(f"alter system set log_statement = '{which}'")
    await db.execute("select pg_reload_conf()")
    while await db.fetchval("show log_statement") != which:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)
