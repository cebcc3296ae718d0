"""Many stores on one Redis, on any event loop, in any process, while it is killed: together they are as one."""

import asyncio
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from coatcheck import QuotaExceeded, open_store
from coatcheck.lifecycle import Recorded, advance
from coatcheck.store import Store
from coatcheck.task import Task
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.databases.fixtures import new_url
from tests.databases.redis import Redis
from tests.stores.redis.helpers import CLAIMED, DONE, PATIENCE, soon, until
from tests.stores.redis.player import play

ROOT = Path(__file__).parents[3]


@pytest.mark.anyio
async def test_stores_share_a_quota_to_the_task(tmp_path: Path) -> None:
    url = new_url("redis", tmp_path)
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(open_store(url)) for _ in range(4)]
        inserts = (stores[number % 4].insert(a_task(str(number)), quota=7) for number in range(60))
        outcomes = await asyncio.gather(*inserts, return_exceptions=True)
        assert sum(isinstance(outcome, QuotaExceeded) for outcome in outcomes) == 53
        kept = [task for task in outcomes if isinstance(task, Task)]
        held = advance(kept[0], CLAIMED, NOW)
        assert await stores[0].delete(kept[1])
        assert await stores[1].replace(held)
        assert await stores[2].replace(advance(held, DONE, NOW))
        for number in range(2):
            assert await stores[3].insert(a_task(f"one more {number}"), quota=7)
        with pytest.raises(QuotaExceeded):
            await stores[1].insert(a_task("too many"), quota=7)


def test_two_event_loops_wake_each_other(tmp_path: Path) -> None:
    url = new_url("redis", tmp_path)
    asyncio.run(throw(url))
    with ThreadPoolExecutor(2) as pool:
        for player in [pool.submit(asyncio.run, play(url, first, 50)) for first in (1, 2)]:
            player.result(PATIENCE)


@pytest.mark.slow
@pytest.mark.anyio
async def test_two_processes_wake_each_other(tmp_path: Path) -> None:
    url = new_url("redis", tmp_path)
    await throw(url)
    words = (sys.executable, "-m", "tests.stores.redis.player", url, "2", "50")
    process = await asyncio.create_subprocess_exec(*words, cwd=ROOT)
    await soon(play(url, 1, 50))
    assert await soon(process.wait()) == 0


async def throw(url: str) -> None:
    async with open_store(url) as store:
        await store.insert(a_task("ball"))


# Redis is killed


class Load:
    """Tasks that are handed in, claimed and finished as fast as may be; and what was acknowledged of them."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, Task] = {}
        self.is_over = False

    async def work(self, store: Store, name: str) -> None:
        number = 0
        while not self.is_over:
            number += 1
            task = await store.insert(a_task(f"{name}-{number}", name, idempotency_key=str(number)), quota=3)
            self.acknowledged[task.id] = task
            for event in (CLAIMED, RECORDED, DONE):
                task = advance(task, event, NOW)
                assert await store.replace(task, RECORDED.entries if event is RECORDED else ())
                self.acknowledged[task.id] = task
            if number % 3 == 0:
                assert await store.delete(task)
                del self.acknowledged[task.id]


RECORDED = Recorded(1, (an_entry(),))


@pytest.mark.slow
@pytest.mark.anyio
async def test_nothing_acknowledged_is_lost_when_redis_is_killed_under_load() -> None:
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    server, load = Redis("--appendfsync", "always"), Load()
    try:
        async with AsyncExitStack() as stack:
            stores = [await stack.enter_async_context(open_store(server.url("x"))) for _ in range(2)]
            work = [asyncio.create_task(load.work(stores[n % 2], f"w{n}")) for n in range(16)]
            for _ in range(4):
                goal = len(load.acknowledged) + dice.randrange(50, 300)
                await until(lambda goal=goal: len(load.acknowledged) >= goal or any(task.done() for task in work))
                server.process.kill()
                await asyncio.to_thread(server.process.start)
            load.is_over = True
            await soon(asyncio.gather(*work))
            for task_id, task in load.acknowledged.items():
                assert await stores[0].get(task_id) == task, f"seed {seed}"
                assert len(await stores[0].journal(task_id)) == 1, f"seed {seed}"
    finally:
        server.close()
