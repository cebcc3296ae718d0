"""When a worker looks after the tasks of others: the overdue often, the dead as often as it can afford."""

from __future__ import annotations

import asyncio
import random

from coatcheck.engine import Engine

_SHARE = 20
"""How much longer a worker does other things than it looks for the dead: that reads everything that is held."""


class Sweeper:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._lease = engine.policy.lease.total_seconds()
        self._looks_at = 0.0

    async def sweep(self) -> None:
        await self._engine.sweep_overdue()
        began = self._loop.time()
        if began >= self._looks_at:
            await self._engine.sweep_dead()
            # After a lease it is overdue anyway; and it may have been a store that was away for so long.
            now = self._loop.time()
            self._looks_at = now + min(_SHARE * (now - began), self._lease)

    async def rest(self) -> None:
        """Wait for the next time; workers that started together should not sweep together."""
        await asyncio.sleep(self._lease / 4 * random.uniform(0.8, 1.2))
