"""The SQLite file: whose it is, whether it is sound, and that nothing acknowledged is ever missing from it."""

import asyncio
import logging
import shutil
import sqlite3
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import pytest
from msgspec.structs import replace

from coatcheck import open_store
from coatcheck.errors import StoreUnavailable, StoreUnusable
from coatcheck.lifecycle import Claimed, Recorded, advance
from coatcheck.store import EVERYONE, Query, Store
from coatcheck.stores.sqlite import file
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.stores.child import a_child
from tests.stores.files import contents, open_files, sql, url, wal

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


async def fill(path: Path, tasks: int = 200) -> None:
    """Make a store of a few dozen pages."""
    async with open_store(url(path)) as store:
        await asyncio.gather(*(store.insert(a_task(f"task-{number}")) for number in range(tasks)))


async def ids(store: Store) -> set[str]:
    return {task.id for task in await store.list(Query(owner=EVERYONE, limit=100_000))}


# Whose it is


def with_another_programs_tables(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table task (id text, body blob)")
        db.execute("insert into task values ('a', x'00')")


def with_another_programs_mark(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma application_id = 1196444487")


def with_another_programs_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma user_version = 1")


def with_another_programs_log(path: Path) -> None:
    """A file whose program was killed: part of it is in the log still."""
    original = path.with_name("original")
    with closing(sqlite3.connect(original)) as db:
        db.execute("pragma journal_mode = wal")
        db.execute("create table notes (text)")
        db.commit()
        shutil.copy(original, path)
        shutil.copy(wal(original), wal(path))
    original.unlink()


def with_another_programs_journal(path: Path) -> None:
    """Some programs let the journal lie around for the next time."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("pragma journal_mode = persist")
        db.execute("create table notes (text)")


def with_text(path: Path) -> None:
    path.write_text("Dear diary,\n" * 1000)


def with_a_little_text(path: Path) -> None:
    path.write_text("Dear diary\n")


FOREIGN = (
    with_another_programs_tables,
    with_another_programs_mark,
    with_another_programs_version,
    with_another_programs_log,
    with_another_programs_journal,
    with_text,
    with_a_little_text,
)


@pytest.mark.parametrize("make", FOREIGN)
async def test_a_file_of_another_program_is_refused_and_left_as_it_is(make: Callable[[Path], None], path: Path) -> None:
    make(path)
    before = contents(path)
    with pytest.raises(StoreUnusable, match="choose another path") as refusal:
        await fill(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert contents(path) == before


async def test_a_file_of_a_newer_version_is_refused_and_left_as_it_is(path: Path) -> None:
    await fill(path)
    sql(path, "pragma user_version = 99")
    before = contents(path)
    with pytest.raises(StoreUnusable, match=r"newer coatcheck.*upgrade coatcheck, or choose another path"):
        await fill(path)
    assert contents(path) == before


# Whether it is sound


def cut(path: Path) -> None:
    body = path.read_bytes()
    path.write_bytes(body[: len(body) // 2])


def cut_within_the_first_page(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1000])


def garble_the_head(path: Path) -> None:
    path.write_bytes(b"\xff" * 100 + path.read_bytes()[100:])


def garble_all_but_the_head(path: Path) -> None:
    body = path.read_bytes()
    path.write_bytes(body[:4096] + b"\xff" * (len(body) - 4096))


@pytest.mark.parametrize("damage", [cut, cut_within_the_first_page, garble_the_head, garble_all_but_the_head])
async def test_a_damaged_file_is_refused_and_left_as_it_is(damage: Callable[[Path], None], path: Path) -> None:
    await fill(path)
    damage(path)
    before = contents(path)
    with pytest.raises(StoreUnusable, match=r"damaged.*restore a backup, or choose another path") as refusal:
        await fill(path)
    assert "\n" not in str(refusal.value)
    assert contents(path) == before


@pytest.mark.parametrize(
    "spoil", [with_another_programs_tables, with_text, cut, garble_the_head, garble_all_but_the_head]
)
async def test_a_refused_file_is_not_kept_open(spoil: Callable[[Path], None], path: Path) -> None:
    if spoil.__name__ not in {make.__name__ for make in FOREIGN}:
        await fill(path)
    spoil(path)
    with pytest.raises(StoreUnusable) as refusal:
        await fill(path)
    assert refusal.value
    assert open_files(path) == []


async def test_a_body_that_cannot_be_read_is_told_from_one_that_is_not_there(path: Path) -> None:
    await fill(path, 2)
    sql(path, "update task set body = ? where id = 'task-0'", b'{"id": 7')
    async with open_store(url(path)) as store:
        with pytest.raises(StoreUnusable, match="task-0 cannot be read"):
            await store.get("task-0")
        assert await store.get("task-1") is not None


async def test_tasks_that_cannot_be_read_do_not_keep_workers_and_the_sweep_from_those_behind_them(path: Path) -> None:
    async with open_store(url(path)) as store:
        for number in range(3):
            await store.insert(a_task(f"damaged-{number}", age=10))
        sound = await store.insert(a_task("sound"))
    sql(path, "update task set body = ? where id like 'damaged%'", b'{"id": 7')
    async with open_store(url(path)) as store:
        assert list(await store.waiting({"slow"}, limit=2, timeout=0)) == [sound]
        assert list(await store.overdue(NOW + timedelta(hours=2), limit=2)) == [sound]


async def test_nothing_is_read_of_a_task_that_is_not_to_be_seen(path: Path) -> None:
    async with open_store(url(path)) as store:
        await store.insert(a_task())
    sql(path, "update task set body = ?", b'{"id": 7')
    async with open_store(url(path)) as store:
        with pytest.raises(StoreUnusable):
            await store.get("a", owner="ann", alive_at=NOW)
        for timeout in (0, 60):
            assert await store.get("a", owner="bob", timeout=timeout) is None
            assert await store.get("a", alive_at=NOW + timedelta(hours=1), timeout=timeout) is None


async def test_an_id_that_cannot_be_written_is_not_found_either(store: Store) -> None:
    """JSON can hold half a surrogate pair, which has no bytes."""
    assert await store.get("\ud800") is None
    assert await store.get("\ud800", newer_than=1, timeout=0.01) is None
    await store.insert(a_task())
    assert await store.get("a", owner="\ud800") is None
    assert list(await store.list(Query(owner="\ud800"))) == []
    assert list(await store.journal("\ud800")) == []


# Opening


def empty(path: Path) -> None:
    path.write_bytes(b"")


async def test_an_empty_file_becomes_a_store(path: Path) -> None:
    empty(path)
    await fill(path, 1)
    async with open_store(url(path)) as store:
        assert await ids(store) == {"task-0"}


async def test_only_its_owner_may_read_the_file(path: Path) -> None:
    async with open_store(url(path)) as store:
        await store.insert(a_task())
        modes = {name.name: stat.S_IMODE(name.stat().st_mode) for name in path.parent.rglob("*")}
    (bell,) = (name for name in modes if name.endswith(".bell"))
    files = ("tasks.db", "tasks.db-wal", "tasks.db-shm", bell)
    assert modes == {**dict.fromkeys(files, 0o600), "tasks.db.bells": 0o700}


async def test_many_may_open_a_new_file_at_once(path: Path) -> None:
    together = Barrier(8)

    def open_and_insert(name: str) -> None:
        async def insert() -> None:
            async with open_store(url(path)) as store:
                await store.insert(a_task(name))

        together.wait(timeout=10)
        asyncio.run(insert())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(open_and_insert, "abcdefgh"))
    async with open_store(url(path)) as store:
        assert await ids(store) == set("abcdefgh")


@pytest.mark.slow
async def test_many_processes_may_open_a_new_file_at_once(path: Path) -> None:
    async def open_and_insert(name: str) -> None:
        async with a_child(path) as child:
            await child.tell("insert", name)

    await asyncio.gather(*(open_and_insert(name) for name in "abcd"))
    async with open_store(url(path)) as store:
        assert await ids(store) == set("abcd")


@pytest.mark.parametrize(("version", "is_warned"), [((3, 51, 2), True), ((3, 51, 3), False), ((3, 53, 0), False)])
async def test_an_sqlite_that_may_damage_files_is_noted_once(
    version: tuple[int, int, int],
    is_warned: bool,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    file._note_wal_reset.cache_clear()  # pyright: ignore[reportPrivateUsage]
    with caplog.at_level(logging.DEBUG, "coatcheck"):
        for _ in range(2):
            await fill(path, 0)
    assert [("WAL-reset bug" in record.message, record.levelname) for record in caplog.records] == (
        [(True, "DEBUG")] if is_warned else []
    )


# Nothing gets lost


async def test_whoever_opens_the_file_again_finds_everything(path: Path) -> None:
    async with open_store(url(path)) as store:
        fresh = await store.insert(a_task("fresh", None, idempotency_key="k"))
        held = advance(await store.insert(a_task("held")), Claimed("w", NOW), NOW)
        await store.replace(held)
        held = advance(held, Recorded(1, (an_entry("x"), an_entry("y"))), NOW)
        await store.replace(held, (an_entry("x"), an_entry("y")))
        await store.delete(await store.insert(a_task("gone")))
    async with open_store(url(path)) as store:
        assert list(await store.list(Query(owner=EVERYONE))) == [held, fresh]
        assert list(await store.journal("held")) == [an_entry("x"), an_entry("y")]
        assert await store.insert(a_task("other", None, idempotency_key="k")) == fresh
        assert await store.overdue(NOW, limit=9) == [held]


async def test_closing_writes_what_is_queued(path: Path) -> None:
    async with open_store(url(path)) as store:
        writes = [asyncio.create_task(store.insert(a_task(str(number)))) for number in range(500)]
        await asyncio.sleep(0)
    assert all(write.done() for write in writes)
    acknowledged = {(await write).id for write in writes}
    assert len(acknowledged) == 500
    async with open_store(url(path)) as store:
        assert await ids(store) == acknowledged


async def test_a_closed_store_says_so(path: Path) -> None:
    async with open_store(url(path)) as store:
        task = await store.insert(a_task())
    calls = (
        store.insert(a_task("b")),
        store.replace(advance(task, Claimed("w", NOW), NOW)),
        store.delete(task),
        store.get("a"),
        store.get("a", newer_than=1, timeout=60),
        store.list(Query(owner=None)),
        store.journal("a"),
        store.waiting({"slow"}, limit=1, timeout=60),
        store.overdue(NOW, limit=1),
    )
    for call in calls:
        with pytest.raises(StoreUnavailable, match="closed"):
            await call
    async with open_store(url(path)) as store:
        assert await ids(store) == {"a"}


async def test_closing_the_store_leaves_nobody_waiting(path: Path) -> None:
    async with open_store(url(path)) as store:
        await store.insert(a_task())
        for_a_change = asyncio.create_task(store.get("a", newer_than=1, timeout=60))
        for_work = asyncio.create_task(store.waiting({"other"}, limit=1, timeout=60))
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        with pytest.raises(StoreUnavailable):
            await for_a_change
        with pytest.raises(StoreUnavailable):
            await for_work


@pytest.mark.slow
async def test_the_log_does_not_grow_without_bound(path: Path) -> None:
    sizes: list[int] = []
    async with open_store(url(path)) as store:
        tasks = await asyncio.gather(*(store.insert(a_task(str(number))) for number in range(1000)))
        for _ in range(15):
            tasks = [replace(task, version=task.version + 1) for task in tasks]
            assert all(await asyncio.gather(*(store.replace(task) for task in tasks)))
            sizes.append(wal(path).stat().st_size)
        assert list(await asyncio.gather(*(store.get(task.id) for task in tasks))) == tasks
    assert sizes[4] > sizes[0], "it does grow at first"
    assert sizes[-1] <= sizes[4] * 1.2
    async with open_store(url(path)) as store:
        assert list(await asyncio.gather(*(store.get(task.id) for task in tasks))) == tasks
