"""An engine on each store, and a clock that is turned by hand."""

import asyncio
from collections.abc import Callable

import pytest

from coatcheck import Engine, Policy, Task
from coatcheck.store import Store
from tests.clock import Clock

PATIENCE = 20
"""Seconds to wait for what should come at once."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(store: Store, clock: Clock) -> Engine:
    return Engine(store, Policy(), clock)


async def until(engine: Engine, task: Task, is_so: Callable[[Task], object]) -> Task:
    """Return the task as soon as `is_so` of it."""
    async with asyncio.timeout(PATIENCE):
        while not is_so(task):
            task = await engine.wait(task, timeout=PATIENCE)
    return task


async def finished(engine: Engine, task: Task) -> Task:
    return await until(engine, task, lambda task: task.status.is_terminal)
