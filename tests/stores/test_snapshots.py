"""Reads of one turn of the loop share a snapshot, and nobody sees the past for longer than that."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from coatcheck import open_store
from coatcheck.lifecycle import Cancelled, Claimed, Renewed, advance
from coatcheck.store import Store
from coatcheck.stores.sqlite.operations import key_of
from coatcheck.stores.sqlite.store import SQLiteStore
from coatcheck.testing.builders import NOW, a_task

pytestmark = pytest.mark.anyio


async def read_often(store: Store) -> None:
    for _ in range(3):
        await store.get("a")


def delete_everything(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("delete from task")
        other.commit()


async def test_what_another_program_commits_is_seen_in_the_next_turn(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    async with open_store(f"sqlite:///{path}") as store:
        await store.insert(a_task())
        await read_often(store)
        delete_everything(path)
        await asyncio.sleep(0)
        assert await store.get("a") is None


async def test_what_one_wrote_oneself_is_seen_at_once_however_busy_the_readers(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path}/tasks.db") as store:
        await store.insert(a_task())
        is_over = False

        async def keep_reading() -> None:
            while not is_over:
                await read_often(store)
                await asyncio.sleep(0)

        readers = [asyncio.create_task(keep_reading()) for _ in range(5)]
        for number in range(200):
            changed = a_task(f"t{number}")
            await store.insert(changed)
            assert await store.get(changed.id) == changed
            ended = advance(changed, Cancelled(), NOW)
            assert await store.replace(ended)
            assert await store.get(changed.id) == ended
        is_over = True
        await asyncio.gather(*readers)


async def test_two_stores_on_one_file_never_miss_each_other_however_busy_they_read(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    async with open_store(url) as here, open_store(url) as there:
        task = await here.insert(a_task())
        for turn in range(200):
            reader, writer = (here, there) if turn % 2 else (there, here)
            waiting = asyncio.create_task(reader.get("a", newer_than=task.version, timeout=3))
            await read_often(reader)
            newer = advance(task, Claimed("w", NOW), NOW) if turn == 0 else advance(task, Renewed(1, NOW), NOW)
            assert await writer.replace(newer)
            assert await waiting == newer
            task = newer


async def test_no_snapshot_outlives_its_turn(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    async with open_store(f"sqlite:///{path}") as store:
        await store.insert(a_task())
        await read_often(store)
        await asyncio.sleep(0)
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0, "a reader kept the log busy"


async def test_whoever_hears_a_ring_reads_what_it_was_about(tmp_path: Path) -> None:
    """A ring may be heard in the turn in which others have read already; their snapshot is older than the commit."""
    path = tmp_path / "tasks.db"
    async with SQLiteStore(path) as store:
        task = await store.insert(a_task())
        await read_often(store)
        with closing(sqlite3.connect(path)) as other:
            other.execute("update task set version = version + 1")
            other.commit()
        store._on_ring([key_of("a")])  # pyright: ignore[reportPrivateUsage]
        async with asyncio.timeout(3):  # and not wait_for, which would read in the next turn
            await store.get("a", newer_than=task.version, timeout=60)
