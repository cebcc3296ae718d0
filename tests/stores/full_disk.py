"""A process whose disk is full for a while; it prints what it saw, line by line."""

import asyncio
import os
import resource
import sys
from contextlib import closing, suppress
from pathlib import Path

from msgspec.structs import replace

from coatcheck import open_store
from coatcheck.errors import StoreUnavailable
from coatcheck.store import EVERYONE, Query, Store
from coatcheck.stores.sqlite.bell import Bell
from coatcheck.testing.builders import a_task, an_entry
from tests.stores.files import url, wal


async def write_a_batch(store: Store) -> list[str]:
    """Make new tasks and change the old one, all in one batch; return how each went."""
    old = await store.get("old")
    assert old is not None
    changed = replace(old, version=old.version + 1, entries=1)
    outcomes = await asyncio.gather(
        *(store.insert(a_task(f"new-{number}")) for number in range(20)),
        store.replace(changed, (an_entry(),)),
        return_exceptions=True,
    )
    return [type(outcome).__name__ for outcome in outcomes]


async def what_is_kept(store: Store) -> tuple[list[str], int]:
    tasks = await store.list(Query(owner=EVERYONE, limit=100))
    return sorted(f"{task.id}/{task.version}" for task in tasks), len(await store.journal("old"))


async def run_into_a_limit(path: Path) -> None:
    """Forbid the log to grow by more than one page and a bit: a batch gets half into it."""
    async with open_store(url(path)) as store:
        await store.insert(a_task("old"))
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (wal(path).stat().st_size + 6000, most))
        print(sorted(set(await write_a_batch(store))))
        print(*await what_is_kept(store))
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        print(sorted(set(await write_a_batch(store))))
    async with open_store(url(path)) as store:
        kept, entries = await what_is_kept(store)
        print(len(kept), entries)


async def fill_the_disk(path: Path) -> None:
    """Leave no room at all, then a page more with every write that fails."""
    filler = path.with_name("filler")
    async with open_store(url(path)) as store:
        filler.touch()
        with filler.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError as error:
                print(error.strerror)
        acknowledged: list[str] = []
        for attempt in range(30):
            try:
                acknowledged.append((await store.insert(a_task(str(attempt)))).id)
            except StoreUnavailable:
                os.truncate(filler, filler.stat().st_size - 4096)
        print(0 < len(acknowledged) < 30)
        filler.unlink()
        acknowledged.append((await store.insert(a_task("last"))).id)
    async with open_store(url(path)) as store:
        kept = await store.list(Query(owner=EVERYONE, limit=100))
        print(sorted(task.id for task in kept) == sorted(acknowledged))


async def miss_a_ring(path: Path) -> None:
    """Ring while nothing can be written, and once more when it can."""
    heard = asyncio.Event()
    with closing(Bell(path, lambda _: None)) as bell, closing(Bell(path, lambda _: heard.set())):
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
        with suppress(OSError):
            bell.ring([1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        bell.ring([2])
        await asyncio.wait_for(heard.wait(), 5)
    print("heard", flush=True)


if __name__ == "__main__":
    story = {"limit": run_into_a_limit, "fill": fill_the_disk, "ring": miss_a_ring}[sys.argv[1]]
    asyncio.run(story(Path(sys.argv[2])))
