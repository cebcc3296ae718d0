"""Databases to measure on: started for one benchmark, durable as in production, and what they take of the processor."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import psutil
from tests.databases.postgres import Postgres
from tests.databases.redis import Redis
from tests.processes import PATIENCE

from benchmarks.load.meter import cpu_seconds

# Redis would otherwise rewrite its log in the middle of somebody's turn, in a process that takes a core for itself.
_NO_REWRITES = ("--auto-aof-rewrite-percentage", "0")
REDIS_TERMS = "AOF, everysec"
_LOOK_AGAIN_SECONDS = 0.02
POSTGRES_TERMS = "fsync and synchronous_commit on"


class Database(msgspec.Struct, frozen=True):
    name: str
    url: Callable[[str], str]
    """Where a store of this name is, which nobody else uses."""
    address: str = ""
    """Of the server, where there is one."""
    pid: int | None = None
    words: Callable[[], str] = str
    """What the server has logged."""

    def cpu_seconds(self) -> float:
        """Return the processor time of the server so far, with all processes it has and had."""
        if self.pid is None:
            return 0.0
        server = psutil.Process(self.pid)
        ended = server.cpu_times()
        total = cpu_seconds(self.pid) + ended.children_user + ended.children_system
        for child in server.children(recursive=True):
            with suppress(OSError):  # it has ended since
                total += cpu_seconds(child.pid)
        return total


@contextmanager
def sqlite(folder: Path) -> Generator[Database]:
    yield Database("SQLite", lambda name: f"sqlite:///{folder / name}.db")


@contextmanager
def redis() -> Generator[Database]:
    server = Redis(*_NO_REWRITES, is_fast=False)
    try:
        yield Database("Redis", server.url, server.address, server.process.pid, server.process.words)
    finally:
        server.close()


@contextmanager
def postgres(*settings: str) -> Generator[Database]:
    server = Postgres(*settings, is_fast=False)
    try:
        asyncio.run(ready(server.address))
        yield Database("PostgreSQL", server.url, server.address, server.process.pid, server.process.words)
    finally:
        server.close()


@asynccontextmanager
async def connected(address: str) -> AsyncGenerator[Any]:
    """A connection to a PostgreSQL, as asyncpg has it."""
    db: Any = await asyncpg.connect(address)
    try:
        yield db
    finally:
        await db.close()


async def settle(database: Database) -> None:
    """Have a server do now what it would otherwise do at some time soon, in the middle of somebody's turn."""
    if database.name == "PostgreSQL":
        async with connected(database.address) as db:
            for statement in ("vacuum analyze", "checkpoint"):
                await db.execute(statement)


async def ready(address: str) -> None:
    """Wait until it takes connections: it listens a little sooner."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(asyncpg.CannotConnectNowError):
                async with connected(address):
                    return
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
