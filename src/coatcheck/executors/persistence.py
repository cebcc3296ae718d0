"""Asking again for as long as it takes, where what went wrong may pass."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from coatcheck.errors import StoreError
from coatcheck.executor import ExecutorUnavailable
from coatcheck.executors.pace import Pace

Value = TypeVar("Value")
PASSING = (ExecutorUnavailable, StoreError, OSError)
"""What may be otherwise a little later; a TimeoutError is an OSError."""


async def persistently(
    ask: Callable[[], Awaitable[Value]], pace: Pace, troubled: Callable[[Exception], Awaitable[None]] | None = None
) -> Value:
    """Return what `ask` does, once it does. `troubled` is told of every failure before the next try."""
    failures = 0
    while True:
        try:
            return await ask()
        except PASSING as error:
            failures += 1
            if troubled:
                await troubled(error)
            wish = error.retry_after if isinstance(error, ExecutorUnavailable) else None
        await asyncio.sleep(pace.between_tries(failures, wish))
