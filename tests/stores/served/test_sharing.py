"""Many stores on one server, on any event loop, in any process: as one, or as if the others were not there."""

import asyncio
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coatcheck import QuotaExceeded, open_store
from coatcheck.lifecycle import Recorded, advance
from coatcheck.store import EVERYONE, Query, Store
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.processes import PATIENCE
from tests.stores.served import player
from tests.stores.served.helpers import CLAIMED, DONE, ids, soon, stores

ROOT = Path(__file__).parents[3]


@pytest.mark.anyio
async def test_stores_of_different_names_do_not_see_each_other(url: str) -> None:
    urls = [url, f"{url}_X", f"{url}_x", *([url.replace("/0?", "/1?")] if "/0?" in url else [])]
    for number, place in enumerate(urls):
        async with open_store(place) as store:
            assert await store.list(Query(owner=EVERYONE)) == []
            await store.insert(a_task(f"{number}", idempotency_key="k"), quota=1)
    for number, place in enumerate(urls):
        async with open_store(place) as store:
            assert ids(await store.list(Query(owner=EVERYONE))) == [f"{number}"]


# Quotas


@pytest.mark.anyio
@pytest.mark.parametrize("quota", [1, 7, 50])
async def test_stores_share_a_quota_to_the_task(quota: int, url: str) -> None:
    async with stores(url, 4) as many:
        for number in range(4):
            inserts = (many[n % 4].insert(a_task(f"{number}-{n}", f"{number}"), quota=quota) for n in range(60))
            outcomes = await soon(asyncio.gather(*inserts, return_exceptions=True))
            refused = sum(isinstance(outcome, QuotaExceeded) for outcome in outcomes)
            assert refused == 60 - quota
            assert len(await many[0].list(Query(owner=f"{number}", limit=100))) == quota


@pytest.mark.anyio
async def test_what_has_ended_or_is_gone_makes_room_in_every_store(url: str) -> None:
    async with stores(url, 3) as (one, other, third):
        kept = [await one.insert(a_task(str(number)), quota=7) for number in range(7)]
        held = advance(kept[0], CLAIMED, NOW)
        assert await other.delete(kept[1])
        assert await one.replace(held)
        assert await other.replace(advance(held, DONE, NOW))
        for number in range(2):
            assert await third.insert(a_task(f"one more {number}"), quota=7)
        for store in (one, other, third):
            with pytest.raises(QuotaExceeded):
                await store.insert(a_task("too many"), quota=7)


@pytest.mark.anyio
async def test_a_quota_holds_while_tasks_come_and_go_in_two_stores(url: str) -> None:
    async with stores(url, 2) as both:
        most = await soon(asyncio.gather(*(come_and_go(both[number % 2], f"{number}") for number in range(12))))
        assert max(most) <= 3
        assert await both[0].list(Query(owner=EVERYONE)) == []


async def come_and_go(store: Store, name: str) -> int:
    """Hand in and take back, as often as the quota lets one; return the most that anybody saw at once."""
    most = 0
    for number in range(10):
        try:
            task = await store.insert(a_task(f"{name}-{number}"), quota=3)
        except QuotaExceeded:
            continue
        most = max(most, len(await store.list(Query(owner="ann"))))
        assert await store.delete(task)
    return most


# Races


@pytest.mark.anyio
async def test_of_two_stores_that_claim_the_same_tasks_each_task_has_one_winner(url: str) -> None:
    async with stores(url, 2) as both:
        tasks = [a_task(str(number)) for number in range(100)]
        await asyncio.gather(*map(both[0].insert, tasks))
        held = [advance(task, CLAIMED, NOW) for task in tasks]
        claims = [asyncio.gather(*map(both[n].replace, held[:: 1 - 2 * n])) for n in range(2)]
        ahead, back = await soon(asyncio.gather(*claims))
        assert [first + second for first, second in zip(ahead, reversed(back), strict=True)] == [1] * 100


@pytest.mark.anyio
async def test_of_stores_that_hand_in_under_the_same_keys_in_any_order_all_get_the_same_tasks(url: str) -> None:
    async with stores(url, 2) as both:
        for turn in range(5):
            tasks = [
                [a_task(f"{turn}-{n}-{number}", idempotency_key=f"{turn}-{number}") for number in range(100)]
                for n in range(2)
            ]
            ahead = asyncio.gather(*map(both[0].insert, tasks[0]))
            back = asyncio.gather(*map(both[1].insert, tasks[1][::-1]))
            kept, kept_back = await soon(asyncio.gather(ahead, back))
            assert ids(kept) == ids(kept_back[::-1])


@pytest.mark.anyio
async def test_writers_of_one_task_in_two_stores_append_to_one_journal(url: str) -> None:
    async with stores(url, 2) as both:
        await both[0].insert(advance(a_task(), CLAIMED, NOW))
        await soon(asyncio.gather(*(append(both[n % 2], f"{n}") for n in range(8))))
        keys = [entry.key for entry in await both[0].journal("a")]
        assert Counter(keys) == {f"{n}": 5 for n in range(8)}
        task = await both[1].get("a")
        assert task is not None
        assert task.entries == 40


async def append(store: Store, key: str) -> None:
    entries = (an_entry(key=key),)
    for _ in range(5):
        while True:
            task = await store.get("a")
            assert task is not None
            if await store.replace(advance(task, Recorded(1, entries), NOW), entries):
                break


# Event loops and processes


def test_two_event_loops_wake_each_other(url: str) -> None:
    asyncio.run(throw(url))
    with ThreadPoolExecutor(2) as pool:
        for thread in [pool.submit(asyncio.run, player.play(url, first, 50)) for first in (1, 2)]:
            thread.result(PATIENCE)


@pytest.mark.slow
@pytest.mark.anyio
async def test_two_processes_wake_each_other(url: str) -> None:
    await throw(url)
    words = (sys.executable, "-m", player.__name__, url, "2", "50")
    process = await asyncio.create_subprocess_exec(*words, cwd=ROOT)
    await soon(player.play(url, 1, 50))
    assert await soon(process.wait()) == 0


async def throw(url: str) -> None:
    async with open_store(url) as store:
        await store.insert(a_task("ball"))
