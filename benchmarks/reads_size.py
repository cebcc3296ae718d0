"""Reads of every kind among 1,000,000 tasks, against the same among 1,000, on every store that outlives a process."""

from __future__ import annotations

import pickle
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from typing import NamedTuple

import msgspec
import psutil
import uvloop

from benchmarks import databases
from benchmarks.databases import Database, settle
from benchmarks.line import Line, Round, Settings, Target, compared
from benchmarks.rows import TOOL, finished_tasks, waiting_tasks
from benchmarks.timing import CALLERS, Spent, alternate, spent, together
from coatcheck.lifecycle import Claimed, advance
from coatcheck.store import Query, Store
from coatcheck.task import Position, Task
from coatcheck.wiring import open_store

OWNER = "busy"
"""Has one of ten tasks, in any state."""
LATE = 20
"""Tasks whose lifetime is over, however many there are."""
_PAGE, _OFFERED, _LOADERS = 50, 10, 1000
_DAY = timedelta(days=1)


class Shelf(NamedTuple):
    """A store full of tasks, and some of them to ask for."""

    store: Store
    ids: Sequence[str]
    positions: Sequence[Position]
    """Of tasks of the busy owner, with a page of older ones each."""


class Wanted(NamedTuple):
    """What one caller asks for."""

    id: str
    position: Position


class Read(NamedTuple):
    name: str
    once: Callable[[Store, Wanted], Awaitable[int]]
    """Read, and return how many tasks came."""
    expected: int


async def _get(store: Store, wanted: Wanted) -> int:
    return await store.get(wanted.id) is not None


async def _page(store: Store, wanted: Wanted) -> int:
    return len(await store.list(Query(owner=OWNER, after=wanted.position, limit=_PAGE)))


async def _waiting(store: Store, wanted: Wanted) -> int:
    return len(await store.waiting([TOOL], limit=_OFFERED, timeout=0))


async def _overdue(store: Store, wanted: Wanted) -> int:
    return len(await store.overdue(datetime.now(UTC), limit=2 * LATE))


READS = (
    Read("get", _get, 1),
    Read(f"a page of {_PAGE}", _page, _PAGE),
    Read(f"{_OFFERED} waiting", _waiting, _OFFERED),
    Read(f"{LATE} overdue", _overdue, LATE),
)


def run(settings: Settings) -> list[Line]:
    sizes = (50_000, 10_000, 1000) if settings.is_quick else (1_000_000, 100_000, 1000)
    lines: list[Line] = []
    buffers = psutil.virtual_memory().total // 4 // 2**20  # what its documentation advises; its default is 128 MB
    postgres = partial(databases.postgres, f"shared_buffers={buffers}MB")
    for start in (partial(databases.sqlite, settings.folder), databases.redis, postgres):
        with start() as database:
            lines += uvloop.run(compare(settings, database, sizes))
    return lines


async def compare(settings: Settings, database: Database, sizes: Sequence[int]) -> list[Line]:
    """Fill a store for each size and read from all of them in turn; the first is held against the last."""
    started = time.perf_counter()
    async with AsyncExitStack() as stack:
        shelves = [await stack.enter_async_context(_filled(database, size)) for size in sizes]
        built = f"filled in {time.perf_counter() - started:.0f} s"
        for shelf in shelves:
            await _read_through(shelf)
        await settle(database)
        return [
            await _compare(settings, database, read, dict(zip(sizes, shelves, strict=True)), built) for read in READS
        ]


async def _compare(settings: Settings, database: Database, read: Read, shelves: dict[int, Shelf], built: str) -> Line:
    reads = settings.scaled(25, 10) * CALLERS
    large, *_, small = shelves
    turns = {size: partial(_read, shelf, read, reads) for size, shelf in shelves.items()}
    for turn in turns.values():
        for _ in range(5):
            await turn()
    rounds = await alternate(settings.rounds, turns[large], turns[small], _microseconds)
    between = [await alternate(1, turns[size], turns[small], _microseconds) for size in list(shelves)[1:-1]]
    return compared(
        f"{database.name}: {read.name} among {large:,} tasks",
        "us",
        rounds,
        rival=f"among {small:,}",
        target=Target("<=", 1.5),
        note="; ".join([f"{CALLERS} callers", *map(_told, list(shelves)[1:-1], between), built]),
    )


async def _read_through(shelf: Shelf) -> None:
    """Get every task once, so that no page is mapped or fetched for the first time while it is timed."""
    left = iter(shelf.ids)

    async def caller() -> None:
        for task_id in left:
            await shelf.store.get(task_id)

    await together([caller() for _ in range(CALLERS)])


def _microseconds(taken: Spent) -> float:
    return taken.microseconds


def _told(size: int, rounds: Sequence[Round]) -> str:
    return f"among {size:,}: {median(each.ours / each.rival for each in rounds):.2f}x"


async def _read(shelf: Shelf, read: Read, count: int) -> Spent:
    left = iter(drawn(shelf, count))

    async def caller() -> None:
        for wanted in left:
            if (found := await read.once(shelf.store, wanted)) != read.expected:
                raise RuntimeError(f"{read.name}: {found} tasks came, not {read.expected}")

    return await spent(count, together([caller() for _ in range(CALLERS)]))


def drawn(shelf: Shelf, count: int) -> list[Wanted]:
    """Draw at random. They are copies, as new as from a network: to look for one of a million costs a caller, too."""
    wanted = [Wanted(random.choice(shelf.ids), random.choice(shelf.positions)) for _ in range(count)]
    return pickle.loads(pickle.dumps(wanted))


@asynccontextmanager
async def _filled(database: Database, size: int) -> AsyncGenerator[Shelf]:
    async with open_store(database.url(f"size_{size}")) as store:
        yield await fill(store, size)


async def fill(store: Store, size: int) -> Shelf:
    """Put so many tasks into an empty store, all through its own insert."""
    ids: list[str] = []
    positions: list[Position] = []
    left = mixed(size)

    async def load() -> None:
        for task in left:
            ids.append(task.id)
            if task.owner == OWNER:
                positions.append(task.position)
            await store.insert(task)

    await together([load() for _ in range(_LOADERS)])
    return Shelf(store, ids, sorted(positions)[_PAGE:])


def mixed(size: int) -> Iterator[Task]:
    """Tasks as a busy service has them: one of ten waits, one of a hundred is held, some are late, most are done."""
    replace = msgspec.structs.replace
    for number, (done, waiting) in enumerate(zip(finished_tasks(size), waiting_tasks(size), strict=True)):
        task = done
        if number < LATE:
            task = replace(done, expires_at=done.created_at)
        elif number % 10 == 5:
            task = waiting
        elif number % 100 == 7:
            task = advance(waiting, Claimed("bench", waiting.created_at + _DAY), waiting.created_at)
        yield replace(task, owner=OWNER) if number // 10 % 10 == 0 else task
