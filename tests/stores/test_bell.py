"""Processes on one file wake each other, at once and by the bell alone: the safety net is out of reach here."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncGenerator, Coroutine, Iterable
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from coatcheck import open_store
from coatcheck.lifecycle import Cancelled, Claimed, advance
from coatcheck.store import Store
from coatcheck.stores.sqlite import bell
from coatcheck.stores.sqlite.bell import Bell
from coatcheck.testing.builders import NOW, a_task
from tests.stores.child import a_child
from tests.stores.files import url

pytestmark = pytest.mark.anyio

Found = TypeVar("Found")
PATIENCE = 5
"""Seconds for what should come at once."""


@pytest.fixture(autouse=True)
def _no_safety_net(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coatcheck.stores.sqlite.store._SAFETY_SECONDS", 3600.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@pytest.fixture
async def store(path: Path) -> AsyncGenerator[Store]:
    async with open_store(url(path)) as opened:
        yield opened


@pytest.fixture
async def other(store: Store, path: Path) -> AsyncGenerator[Store]:
    """A second store on the file; to the bell it is another process."""
    async with open_store(url(path)) as opened:
        yield opened


async def started(call: Coroutine[Any, Any, Found]) -> asyncio.Task[Found]:
    task = asyncio.create_task(call)
    await asyncio.sleep(0)
    assert not task.done()
    return task


def rings(path: Path) -> set[str]:
    return {entry.name for entry in path.with_name(path.name + ".bells").iterdir()}


# Between processes


@pytest.mark.slow
async def test_a_change_by_another_process_wakes_whoever_waits_for_the_task(store: Store, path: Path) -> None:
    task = await store.insert(a_task())
    async with a_child(path) as child:
        woken = await started(store.get("a", newer_than=task.version, timeout=60))
        await child.tell("claim", "a")
        claimed = await asyncio.wait_for(woken, PATIENCE)
        assert claimed is not None
        assert claimed.lease is not None
        assert claimed.lease.worker == "child"


@pytest.mark.slow
async def test_a_task_forgotten_by_another_process_wakes_whoever_waits_for_it(store: Store, path: Path) -> None:
    task = await store.insert(a_task())
    async with a_child(path) as child:
        woken = await started(store.get("a", newer_than=task.version, timeout=60))
        await child.tell("delete", "a")
        assert await asyncio.wait_for(woken, PATIENCE) is None


@pytest.mark.slow
async def test_work_from_another_process_wakes_whoever_waits_for_work(store: Store, path: Path) -> None:
    async with a_child(path) as child:
        offered = await started(store.waiting({"slow"}, limit=1, timeout=60))
        await child.tell("insert", "a")
        assert list(await asyncio.wait_for(offered, PATIENCE)) == [a_task("a")]


@pytest.mark.slow
async def test_a_process_that_was_there_first_is_heard_too(path: Path) -> None:
    async with a_child(path) as child:
        await child.tell("insert", "a")
        async with open_store(url(path)) as store:
            woken = await started(store.get("a", newer_than=1, timeout=60))
            await child.tell("claim", "a")
            claimed = await asyncio.wait_for(woken, PATIENCE)
            assert claimed is not None
            assert claimed.version == 2


@pytest.mark.slow
async def test_the_ring_of_a_killed_process_is_cleared_away_by_the_next_one(path: Path) -> None:
    async with a_child(path) as child:
        left = rings(path)
        await child.kill()
    assert len(left) == 1
    assert rings(path) == left
    async with open_store(url(path)):
        assert len(rings(path)) == 1
        assert not rings(path) & left
    assert rings(path) == set()


@pytest.mark.slow
async def test_the_ring_of_a_living_process_is_left_to_it(path: Path) -> None:
    async with a_child(path):
        its_own = rings(path)
        async with open_store(url(path)):
            assert its_own < rings(path)
        assert rings(path) == its_own
    assert rings(path) == set()


# Between stores


async def test_many_waiters_on_many_tasks_are_each_woken_by_their_own(store: Store, other: Store) -> None:
    tasks = await asyncio.gather(*(store.insert(a_task(str(number))) for number in range(50)))
    waits = [await started(store.get(task.id, newer_than=1, timeout=60)) for task in tasks]
    ended = [advance(task, Cancelled(), NOW) for task in tasks]
    await asyncio.gather(*(other.replace(task) for task in ended))
    assert await asyncio.wait_for(asyncio.gather(*waits), PATIENCE) == ended


@pytest.mark.slow
async def test_more_changes_than_the_ring_has_room_for_wake_everyone(store: Store, other: Store) -> None:
    tasks = await asyncio.gather(*(store.insert(a_task(str(number))) for number in range(5000)))
    waits = [await started(store.get(task.id, newer_than=1, timeout=60)) for task in tasks]
    ended = [advance(task, Cancelled(), NOW) for task in tasks]
    await asyncio.gather(*(other.replace(task) for task in ended))
    woken = await asyncio.wait_for(asyncio.gather(*waits), PATIENCE)
    assert [task and task.version for task in woken] == [2] * 5000


async def test_a_change_to_another_task_sends_nobody_home_early(store: Store) -> None:
    """To the bell, these two ids are the same. Whoever it wakes for nothing has to go on waiting."""
    mine, theirs = [await store.insert(a_task(task_id)) for task_id in ("plumless", "buckeroo")]
    wait = await started(store.get(mine.id, newer_than=mine.version, timeout=60))
    await store.replace(advance(theirs, Claimed("w", NOW), NOW))
    claimed = advance(mine, Claimed("w", NOW), NOW)
    await store.replace(claimed)
    assert await asyncio.wait_for(wait, PATIENCE) == claimed


async def test_what_no_bell_announced_is_noticed_by_the_safety_net(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coatcheck.stores.sqlite.store._SAFETY_SECONDS", 0.05)
    async with open_store(url(path)) as store:
        await store.insert(a_task())
        woken = await started(store.get("a", newer_than=1, timeout=60))
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("delete from task")
        assert await asyncio.wait_for(woken, PATIENCE) is None


# The bell itself


class Listener:
    """Collects what a bell hears."""

    def __init__(self) -> None:
        self.heard: list[list[int] | None] = []
        self._news = asyncio.Event()

    def on_ring(self, keys: Iterable[int] | None) -> None:
        self.heard.append(None if keys is None else sorted(keys))
        self._news.set()

    async def news(self) -> None:
        await asyncio.wait_for(self._news.wait(), PATIENCE)
        self._news.clear()


async def test_a_bell_is_heard_by_the_others_and_not_by_itself(tmp_path: Path) -> None:
    mine, theirs = Listener(), Listener()
    with closing(Bell(tmp_path, mine.on_ring)) as my_bell, closing(Bell(tmp_path, theirs.on_ring)) as their_bell:
        my_bell.ring([7, 8])
        await theirs.news()
        their_bell.ring([9])
        await mine.news()
    assert theirs.heard == [[7, 8]]
    assert mine.heard == [[9]]


async def test_a_bell_that_came_later_is_heard_from_its_first_ring(tmp_path: Path) -> None:
    mine, theirs = Listener(), Listener()
    with closing(Bell(tmp_path, mine.on_ring)), closing(Bell(tmp_path, theirs.on_ring)) as their_bell:
        their_bell.ring([1])  # before the loop has had a turn to notice that there is another bell
        await mine.news()
    assert mine.heard == [[1]]


async def test_a_bell_does_not_repeat_what_was_rung_before_it_came(tmp_path: Path) -> None:
    mine, theirs = Listener(), Listener()
    with closing(Bell(tmp_path, theirs.on_ring)) as their_bell:
        their_bell.ring([1, 2, 3])
        with closing(Bell(tmp_path, mine.on_ring)):
            their_bell.ring([4])
            await mine.news()
    assert mine.heard == [[4]]


async def test_a_ring_that_overflowed_is_heard_as_anything_may_have_changed(tmp_path: Path) -> None:
    mine, theirs = Listener(), Listener()
    with closing(Bell(tmp_path, mine.on_ring)), closing(Bell(tmp_path, theirs.on_ring)) as their_bell:
        their_bell.ring(range(1, 5001))
        await mine.news()
        their_bell.ring([6000])
        await mine.news()
    assert mine.heard == [None, [6000]]


async def test_a_process_is_not_woken_by_its_own_commits(store: Store, other: Store, path: Path) -> None:
    """The kernel tells which files each inotify watches: never the ring of the one who listens."""
    folder = path.with_name(path.name + ".bells")
    await store.insert(a_task("a"))
    await other.insert(a_task("b"))
    names = {entry.stat().st_ino: entry.name for entry in folder.iterdir()}
    watched = [{names[inode] for inode in watch if inode in names} for watch in inotify_inodes()]
    assert sorted(map(len, filter(None, watched))) == [1, 1], "each of the two hears the other one"
    assert set().union(*watched) == set(names.values())


def inotify_inodes() -> list[set[int]]:
    """Return the inodes that this process watches, by inotify."""
    watches: list[set[int]] = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            if os.readlink(entry) == "anon_inode:inotify":
                lines = Path("/proc/self/fdinfo", entry.name).read_text().splitlines()
                fields = [line.split() for line in lines if line.startswith("inotify ")]
                watches.append({int(field[2].removeprefix("ino:"), 16) for field in fields})
    return watches


# Where there is no inotify


@pytest.fixture
def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bell, "sys", SimpleNamespace(platform="darwin"))


@pytest.mark.usefixtures("_elsewhere")
async def test_without_inotify_stores_wake_each_other_by_looking_often(path: Path) -> None:
    async with open_store(url(path)) as store, open_store(url(path)) as other:
        assert inotify_inodes() == []
        task = await store.insert(a_task())
        woken = await started(store.get("a", newer_than=1, timeout=60))
        offered = await started(other.waiting({"other"}, limit=1, timeout=60))
        assert await other.replace(advance(task, Cancelled(), NOW))
        assert await store.insert(a_task("b", tool="other"))
        cancelled = await asyncio.wait_for(woken, PATIENCE)
        assert cancelled is not None
        assert cancelled.version == 2
        assert [found.id for found in await asyncio.wait_for(offered, PATIENCE)] == ["b"]


@pytest.mark.slow
@pytest.mark.usefixtures("_elsewhere")
async def test_without_inotify_the_ring_of_a_killed_process_is_cleared_away_too(path: Path) -> None:
    async with a_child(path) as child:
        left = rings(path)
        await child.kill()
    async with open_store(url(path)):
        assert not rings(path) & left
