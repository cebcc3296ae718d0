"""What tests know of a PostgreSQL without the store's help, and do to what is kept there as no store would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from coatcheck.stores.postgres import batches, connections, ear, watch
from coatcheck.stores.postgres.driver import Backoff
from tests.stores.postgres.helpers import Session, ask, schema_of, session
from tests.stores.served.helpers import FOREVER
from tests.stores.served.proxy import Proxy

_SAID = "select pid from pg_stat_activity where state = 'idle' and query like $1"


class PostgresInsider:
    def __init__(self, url: str) -> None:
        self._url = url

    def let_nobody_look(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watch, "_SAFETY_SECONDS", FOREVER)
        monkeypatch.setattr(ear, "_TEST_SECONDS", 60.0)

    def have_patience(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        monkeypatch.setattr(batches, "PATIENCE", seconds)
        monkeypatch.setattr(connections, "PATIENCE", seconds)
        monkeypatch.setattr(connections, "Backoff", partial(Backoff, seconds))

    def complaint(self, port: int) -> str:
        return rf"PostgreSQL at 127.0.0.1:{port}/postgres.* cannot be used just now: .*; check that it is up"

    async def until_watched(self, task_id: str) -> None:
        async with session(self._url) as boss:
            await until_asleep(boss, self._url)

    async def until_idle(self, count: int) -> None:
        async with session(self._url) as boss:
            await boss.until("select count(*) = $1 from @.idle where works <> '{}'", count)
            await boss.until(
                "select not exists (select from pg_stat_activity where state <> 'idle' and pid <> pg_backend_pid())"
            )

    async def expect_idle(self, count: int) -> None:
        await self.until_idle(count)  # whom there is work for is told after the task was written

    async def spoil(self, task_id: str, body: str) -> None:
        await ask(self._url, "update @.task set body = $2 where id = $1", task_id, body.encode())

    async def count_entries(self) -> int:
        return await ask(self._url, "select count(*) from @.entry")

    @asynccontextmanager
    async def unanswered(self, proxy: Proxy, write: Awaitable[object]) -> AsyncGenerator[asyncio.Future[object]]:
        async with closed_gate(self._url) as gate:
            writing = asyncio.ensure_future(write)
            await gate.until_somebody_waits()
            proxy.is_shut = True
            proxy.cut()
        yield writing
        proxy.is_shut = False


async def until_asleep(boss: Session, url: str, other_than: int = 0) -> int:
    """Wait until a store listens for changes of tasks and one has been read; return which session listens."""
    schema = schema_of(url)
    listens, read = f'LISTEN "cc.{schema}"', f'%case when t.version > % join "{schema}".task %'
    await boss.until(f"select exists ({_SAID} and pid <> $2)", listens, other_than)
    await boss.until(f"select exists ({_SAID})", read)
    return await boss.ask(f"{_SAID} and pid <> $2", listens, other_than)


class Gate:
    """While it is closed nothing is written: whoever wants to waits in the middle of it."""

    def __init__(self, other: Session) -> None:
        self._other = other

    async def until_somebody_waits(self) -> None:
        await self._other.until("select exists (select from pg_locks where locktype = 'advisory' and not granted)")


@asynccontextmanager
async def closed_gate(url: str) -> AsyncGenerator[Gate]:
    async with session(url) as other:
        await other.run(
            """
            select pg_advisory_lock(7);
            create or replace function @.wait() returns trigger language plpgsql as $$
            begin
                perform pg_advisory_xact_lock_shared(7);
                return coalesce(new, old);
            end $$;
            create trigger wait before insert or update or delete on @.task for each row execute function @.wait();
            """
        )
        yield Gate(other)
        await other.run("select pg_advisory_unlock(7)")
