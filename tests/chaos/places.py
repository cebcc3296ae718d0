"""Where the tasks are kept: a file, or a server of its own that is killed, stopped and started again."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import asyncpg
import redis.asyncio

from coatcheck import open_store
from tests.databases.postgres import Postgres
from tests.databases.redis import Redis

KINDS = ("sqlite", "redis", "postgres")
_NAME = "chaos"
_connect: Any = asyncpg.connect  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
_from_url: Any = redis.asyncio.from_url  # pyright: ignore[reportUnknownMemberType]


class Place:
    """An SQLite file, which nobody can take away; other places have more to them."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "tasks.db"
        self.server: Redis | Postgres | None = None

    @property
    def url(self) -> str:
        return f"sqlite:///{self._file}"

    def url_through(self, port: int) -> str:
        """Return how the store is found behind a port that leads to its server."""
        assert self.server
        return self.url.replace(f":{self.server.process.port}/", f":{port}/")

    async def left_over(self) -> list[str]:
        """Say what is left of tasks and of processes once there are none."""
        with closing(sqlite3.connect(self._file)) as db:
            sound = [row[0] for row in db.execute("pragma integrity_check") if row[0] != "ok"]
            tables = [row[0] for row in db.execute("select name from sqlite_master where type = 'table'")]
            rows = {table: db.execute(f"select count(*) from {table}").fetchone()[0] for table in tables}
        return sound + [f"{count} rows in {table}" for table, count in rows.items() if count and "task" in table]


class RedisPlace(Place):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        # With `everysec` a killed Redis may forget what it has acknowledged a moment ago, and rightly so.
        self.server = self._redis = Redis("--appendfsync", "always")

    @property
    def url(self) -> str:
        return self._redis.url(_NAME)

    async def left_over(self) -> list[str]:
        async with _from_url(self._redis.address) as client:
            keys = [key.decode() async for key in client.scan_iter()]
        return [key for key in keys if not key.endswith((":schema", ":keys", ":tools"))]


class PostgresPlace(Place):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.server = self._postgres = Postgres()

    @property
    def url(self) -> str:
        return self._postgres.url(_NAME)

    async def left_over(self) -> list[str]:
        async with open_store(self.url):
            pass  # whoever comes next clears away what those have left who were killed
        connection = await _connect(self._postgres.address)
        try:
            tables = await connection.fetch("select tablename from pg_tables where schemaname = $1", _NAME)
            rows = {table: await connection.fetchval(f'select count(*) from {_NAME}."{table}"') for (table,) in tables}
            locks = await connection.fetchval("select count(*) from pg_locks where locktype = 'advisory'")
            others = await connection.fetchval(
                "select count(*) from pg_stat_activity"
                " where backend_type = 'client backend' and pid <> pg_backend_pid()"
            )
        finally:
            await connection.close()
        left = [f"{count} rows in {table}" for table, count in rows.items() if count and "schema" not in table]
        return left + [f"{locks} advisory locks"] * bool(locks) + [f"{others} connections"] * bool(others)


_PLACES = {"sqlite": Place, "redis": RedisPlace, "postgres": PostgresPlace}


@asynccontextmanager
async def place_of(kind: str, folder: Path) -> AsyncGenerator[Place]:
    place = await asyncio.to_thread(_PLACES[kind], folder)
    try:
        yield place
    finally:
        if place.server:
            await asyncio.to_thread(place.server.close)
