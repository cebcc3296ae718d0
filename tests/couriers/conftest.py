"""A store, a docket, and nodes that share both."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from docket import Docket

from coatcheck import Engine, Task, Tool, decode, open_store
from coatcheck.couriers.connection import new_docket
from coatcheck.couriers.worker import DocketWorker
from tests.couriers.children import PATIENCE, Children
from tests.couriers.programs import POLICY
from tests.databases.fixtures import new_url
from tests.databases.redis import Redis

Outcome = Callable[[Task], Awaitable[Task]]
_KEPT: list[Redis] = []
"""Servers that were closed, but have a file open that would be complained about."""


class Node(Protocol):
    async def __call__(self, *tools: Tool, **wishes: Any) -> DocketWorker: ...


def result(task: Task) -> Any:
    assert task.result, task
    return decode(task.result)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where a docket is that nobody else uses."""
    return new_url("redis", tmp_path)


@pytest.fixture
async def docket(url: str) -> AsyncGenerator[Docket]:
    """The same docket, to look into it."""
    async with new_docket(url, 1)[0] as opened:
        yield opened


@pytest.fixture
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Engine]:
    """On a file, unless a test asks for another kind of store."""
    async with open_store(new_url(getattr(request, "param", "sqlite"), tmp_path)) as store:
        yield Engine(store, POLICY)


@pytest.fixture
async def node(engine: Engine, url: str) -> AsyncGenerator[Node]:
    """Start a node with these tools, which stops when the test is over."""
    async with AsyncExitStack() as stack:

        async def start(*tools: Tool, at: str = url, grace: float = 0.2, **wishes: Any) -> DocketWorker:
            return await stack.enter_async_context(DocketWorker(engine, tools, at, grace=grace, **wishes))

        yield start


@pytest.fixture
def outcome(engine: Engine) -> Outcome:
    async def outcome(task: Task) -> Task:
        """Wait for the task's end."""
        task = await engine.finished(task, PATIENCE)
        assert task.status.is_terminal, task
        return task

    return outcome


@pytest.fixture
def redis() -> Generator[Redis]:
    """A server of one's own, which may be killed; Docket has a lot to say of that."""
    logging.getLogger("docket").setLevel(logging.CRITICAL)
    server = Redis()
    _KEPT.append(server)
    yield server
    server.close()
    logging.getLogger("docket").setLevel(logging.NOTSET)


@pytest.fixture
async def children() -> AsyncGenerator[Children]:
    started = Children()
    yield started
    await started.clean_up()
