"""Tasks that come and go as fast as may be, while their server is killed under them."""

from __future__ import annotations

import asyncio
from random import Random

from coatcheck.lifecycle import advance
from coatcheck.store import Store
from coatcheck.task import Task
from coatcheck.testing.builders import NOW, a_task
from tests.processes import ServerProcess
from tests.stores.served.helpers import CLAIMED, DONE, RECORDED, soon, stores, until

_KILLS, _WORKERS = 4, 16


class Load:
    """Tasks that are handed in, claimed and finished; and what was acknowledged of them."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, Task] = {}
        self._is_over = False

    async def outlive(self, url: str, process: ServerProcess, dice: Random) -> None:
        """Work in two stores while the server is killed and started again, several times."""
        async with stores(url, 2) as both:
            work = [asyncio.create_task(self._work(both[n % 2], f"w{n}")) for n in range(_WORKERS)]
            for _ in range(_KILLS):
                goal = len(self.acknowledged) + dice.randrange(50, 200)
                await until(lambda goal=goal: len(self.acknowledged) >= goal or any(task.done() for task in work))
                process.kill()
                await asyncio.to_thread(process.start)
            self._is_over = True
            await soon(asyncio.gather(*work))

    async def _work(self, store: Store, name: str) -> None:
        number = 0
        while not self._is_over:
            number += 1
            key = str(number) if number % 2 else None
            task = await store.insert(a_task(f"{name}-{number}", name, idempotency_key=key), quota=3)
            self.acknowledged[task.id] = task
            for event in (CLAIMED, RECORDED, DONE):
                task = advance(task, event, NOW)
                assert await store.replace(task, RECORDED.entries if event is RECORDED else ())
                self.acknowledged[task.id] = task
            if number % 3 == 0:
                assert await store.delete(task)
                del self.acknowledged[task.id]
