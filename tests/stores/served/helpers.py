"""What the tests of all stores on a database server share: tasks to keep, places to keep them, and patience."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from coatcheck import open_store
from coatcheck.errors import StoreError, StoreUnavailable
from coatcheck.lifecycle import Claimed, Completed, Event, Recorded, advance
from coatcheck.payload import encode
from coatcheck.store import Store
from coatcheck.task import Task
from coatcheck.testing.builders import NOW, an_entry
from tests.processes import PATIENCE

FOREVER = 3600.0
"""Seconds to wait in a store: whoever is not woken is noticed."""
LATER = NOW + timedelta(seconds=30)
CLAIMED = Claimed("w", LATER)
RECORDED = Recorded(1, (an_entry(),))
DONE = Completed(1, encode({}))


async def keep(store: Store, task: Task, *events: Event) -> Task:
    """Bring a task into the store and through events."""
    task = await store.insert(task)
    for event in events:
        task = advance(task, event, NOW)
        assert await store.replace(task, event.entries if isinstance(event, Recorded) else ())
    return task


async def persistently(store: Store, task: Task) -> Task:
    """Insert a task, however often it takes until somebody is there to keep it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(StoreUnavailable):
                return await store.insert(task)


def soon(what: Awaitable[Any]) -> Awaitable[Any]:
    return asyncio.wait_for(what, PATIENCE)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - it is another process that we look at
            await asyncio.sleep(0.002)


def ids(tasks: Sequence[Task]) -> list[str]:
    return [task.id for task in tasks]


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port
    return port


def through(port: int, url: str) -> str:
    """Return how a store is found behind a port that leads to its server."""
    return url.replace(f":{port_of(url)}/", f":{port}/")


@asynccontextmanager
async def stores(url: str, count: int) -> AsyncGenerator[list[Store]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(open_store(url)) for _ in range(count)]


@asynccontextmanager
async def waiting(*some: Store, tools: tuple[str, ...] = ("slow",)) -> AsyncGenerator[list[Any]]:
    """Let each of these wait for work for as long as this lasts."""
    waits = [asyncio.ensure_future(store.waiting(tools, limit=1, timeout=FOREVER)) for store in some]
    try:
        yield waits
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def refusal(url: str, kind: type[StoreError], key: str | None = None) -> str:
    """Return with which words a store is not opened: in one line, without the password."""
    with pytest.raises(kind) as refused:
        async with open_store(url, key=key):
            pass
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)
    return str(refused.value)
