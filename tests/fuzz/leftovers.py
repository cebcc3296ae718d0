"""What is left in memory of requests that are over: nothing may be."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Sized
from contextlib import suppress
from typing import Any

from coatcheck.server import TaskServer
from coatcheck.server.waiting.client_tasks import ClientTasks
from tests.fuzz.asgi import PATIENCE

_LASTING = ("_shutdown_watcher", "Engine.waiting")
"""One per thread, of the library that writes streams, from the first stream on; and the worker, who waits for work."""
_KEEPERS = ("coatcheck.server.waiting.", "coatcheck.server.v2025.")
"""Where those are defined who keep entries for open requests. Who keeps weak references only, keeps nothing."""


class Leftovers:
    """Made before the first request of a running server; `after_all` is asked after the last."""

    def __init__(self, server: TaskServer) -> None:
        self._before = asyncio.all_tasks()
        running = server.tasks.running
        self._keepers = {
            id(one): one for root in (server.tasks, running.vigils, running.news) for one in _keepers(root)
        }

    async def after_all(self) -> list[str]:
        """Wait until everything that was begun since has ended, and nobody keeps anything of it; return what stays."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while self._running() or self._kept():
                    await asyncio.sleep(0.02)
                    gc.collect()
        return [*self._running(), *self._kept()]

    def _running(self) -> list[str]:
        left = [repr(task.get_coro())[:200] for task in asyncio.all_tasks() - self._before]
        return [name for name in left if not any(lasting in name for lasting in _LASTING)]

    def _kept(self) -> list[str]:
        return [found for keeper in self._keepers.values() for found in _contents(keeper)]


def _keepers(root: object) -> Iterator[object]:
    """Return all keepers from `root` on."""
    module = type(root).__module__
    if module.startswith(_KEEPERS) and not isinstance(root, ClientTasks):  # which are bounded, and dropped in time
        yield root
    if module.startswith("coatcheck.server.") and hasattr(root, "__dict__"):
        for value in list(vars(root).values()):
            yield from _keepers(value)


def _contents(keeper: object) -> list[str]:
    """Return what a keeper has in its containers, whatever they are called."""
    held: dict[str, Any] = getattr(keeper, "__dict__", {})
    return [
        f"{type(keeper).__name__}.{name}: {value!r:.300}"
        for name, value in held.items()
        if isinstance(value, Sized) and not isinstance(value, str) and len(value)
    ]
