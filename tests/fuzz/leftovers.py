"""What is left in memory of requests that are over: nothing may be."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Sized
from contextlib import suppress
from typing import Any

from coatcheck.server import TaskServer
from coatcheck.server.calls.caller import Acquaintances
from coatcheck.server.v2025.status import StatusNews
from coatcheck.server.waiting.live import Lines
from coatcheck.server.waiting.relay import Relays
from coatcheck.server.waiting.vigil import Vigils
from tests.fuzz.asgi import PATIENCE

_WATCHER = "_shutdown_watcher"
"""One per thread, of the library that writes streams, from the first stream on."""
_KEEPERS = (Vigils, Relays, Lines, StatusNews, Acquaintances)


class Leftovers:
    """Made before the first request of a running server; `after_all` is asked after the last."""

    def __init__(self, server: TaskServer) -> None:
        self._before = asyncio.all_tasks()
        running = server.tasks.running
        self._keepers = {id(one): one for root in (server.tasks, running.vigils, running.news) for one in _keepers(root)}

    async def after_all(self) -> list[str]:
        """Wait until everything that was begun since has ended, and nobody keeps anything of it; return what stays."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while self._running() or self._kept():  # noqa: ASYNC110, as nobody tells of the last one
                    await asyncio.sleep(0.02)
                    gc.collect()
        return [*self._running(), *self._kept()]

    def _running(self) -> list[str]:
        left = [repr(task.get_coro())[:200] for task in asyncio.all_tasks() - self._before]
        return [name for name in left if _WATCHER not in name]

    def _kept(self) -> list[str]:
        return [found for keeper in self._keepers.values() for found in _contents(keeper)]


def _keepers(root: object) -> Iterator[object]:
    """Return whoever keeps entries for open requests, from `root` on."""
    if isinstance(root, _KEEPERS):
        yield root
    if type(root).__module__.startswith("coatcheck.server") and hasattr(root, "__dict__"):
        for value in list(vars(root).values()):
            yield from _keepers(value)


def _contents(keeper: object) -> list[str]:
    """Return what a keeper has in its containers, whatever they are called."""
    held: dict[str, Any] = vars(keeper)
    return [
        f"{type(keeper).__name__}.{name}: {value!r:.300}"
        for name, value in held.items()
        if isinstance(value, Sized) and len(value)
    ]
