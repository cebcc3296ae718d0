"""The baseline on PostgreSQL: asyncpg, one statement an operation, with the row, the owner's index and the expiry.

It compares versions. It tells nobody of what has changed unless it is asked to, and keeps nothing for workers.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import asyncpg

from coatcheck.stores.codec import Codec
from coatcheck.stores.columns import microseconds
from coatcheck.task import Task

_POOL = 16
_SCHEMA = """
create schema {0};
create table {0}.task (
    id text primary key, version bigint not null, status text not null, owner text, created_at bigint not null,
    expires_at bigint, body bytea not null
);
create index on {0}.task (owner, created_at, id);
create index on {0}.task (expires_at);
"""
_INSERT = (
    "insert into {}.task (id, version, status, owner, created_at, expires_at, body) values ($1, $2, $3, $4, $5, $6, $7)"
)
_GET = "select owner, body from {}.task where id = $1"
_REPLACE = "update {}.task set version = $2, status = $3, expires_at = $4, body = $5 where id = $1 and version = $6"
_REPLACE_AND_TELL = "with changed as ({} returning id) select pg_notify('{}', id) from changed"


class NaivePostgres:
    """A pool of 16, as asyncpg gives it."""

    def __init__(self, address: str, schema: str, **options: Any) -> None:
        self._codec, self._schema = Codec(), schema
        self._pool: Any = asyncpg.create_pool(address, min_size=_POOL, max_size=_POOL, **options)
        self._insert, self._get = _INSERT.format(schema), _GET.format(schema)
        self._replace = _REPLACE.format(schema)

    async def __aenter__(self) -> Self:
        await self._pool
        await self._pool.execute(_SCHEMA.format(self._schema))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.close()

    async def insert(self, task: Task) -> Task:
        await self._pool.execute(
            self._insert,
            task.id,
            task.version,
            task.status.value,
            task.owner,
            microseconds(task.created_at),
            _expiry(task),
            self._codec.dump(task),
        )
        return task

    async def get(self, task_id: str) -> Task | None:
        row = await self._pool.fetchrow(self._get, task_id)
        return self._codec.load(row["body"], task_id, row["owner"]) if row else None

    async def replace(self, task: Task) -> bool:
        return await self._pool.execute(self._replace, *self._changes(task)) == "UPDATE 1"

    def _changes(self, task: Task) -> tuple[object, ...]:
        body = self._codec.dump(task)
        return task.id, task.version, task.status.value, _expiry(task), body, task.version - 1


class BestPostgres(NaivePostgres):
    """Without the statement that asyncpg puts after each operation to reset the connection."""

    def __init__(self, address: str, schema: str) -> None:
        super().__init__(address, schema, reset=_leave_as_it_is)


class TellingPostgres(NaivePostgres):
    """Tells whoever waits of every change, as our store does."""

    def __init__(self, address: str, schema: str) -> None:
        super().__init__(address, schema)
        self._replace = _REPLACE_AND_TELL.format(self._replace, schema)

    async def replace(self, task: Task) -> bool:
        return bool(await self._pool.fetch(self._replace, *self._changes(task)))


async def _leave_as_it_is(connection: object) -> None: ...


def _expiry(task: Task) -> int | None:
    return microseconds(task.expires_at) if task.expires_at else None
