"""What has to be done, but nobody waits for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from coatcheck.errors import CoatcheckError

logger = logging.getLogger("coatcheck")


class Errands:
    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[None]] = set()

    def run(self, errand: Coroutine[Any, Any, Any]) -> asyncio.Task[None]:
        def ended(task: asyncio.Task[None]) -> None:
            self._under_way.discard(task)
            errand.close()  # it was never begun, if it was cancelled at once

        task = asyncio.create_task(_run(errand))
        self._under_way.add(task)
        task.add_done_callback(ended)
        return task

    async def settle(self) -> None:
        """Wait until all is done."""
        await asyncio.gather(*self._under_way, return_exceptions=True)


class InOrder:
    """What is to be said one thing after the other, and nobody waits for until the end."""

    def __init__(self) -> None:
        self._last: asyncio.Task[None] | None = None

    def say(self, words: Coroutine[Any, Any, Any]) -> None:
        self._last = asyncio.create_task(_after(self._last, words))

    async def settle(self) -> None:
        """Wait until all is said."""
        if self._last:
            await asyncio.wait((self._last,))


async def _after(last: asyncio.Task[None] | None, words: Coroutine[Any, Any, Any]) -> None:
    if last:
        await asyncio.wait((last,))
    await _run(words)


async def _run(errand: Coroutine[Any, Any, Any]) -> None:
    try:
        await errand
    except CoatcheckError as error:
        logger.error("Something could not be done: %s", error)
    except Exception:
        logger.exception("Something could not be done")
