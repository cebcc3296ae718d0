"""A store that processes share, an engine on it in this process, and processes to kill."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coatcheck import Engine, Task, decode, open_store
from coatcheck.store import Store
from tests.crash.children import PATIENCE, Children
from tests.crash.programs import POLICY, TOOLS
from tests.databases.fixtures import new_url

SHARED = ("sqlite", "redis", "postgres")
Submit = Callable[..., Awaitable[Task]]
Outcome = Callable[[Task], Awaitable[Task]]


def result(task: Task) -> Any:
    assert task.result, task
    return decode(task.result)


@pytest.fixture
async def children() -> AsyncGenerator[Children]:
    started = Children()
    yield started
    await started.clean_up()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where tools write down what they really did."""
    return tmp_path / "log.txt"


@pytest.fixture(params=SHARED)
def kind_of_store(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def url(kind_of_store: str, tmp_path: Path) -> Generator[str]:
    """Where an empty store is, for each kind that processes can share; a file is sound at the end."""
    yield new_url(kind_of_store, tmp_path)
    if kind_of_store == "sqlite":
        with closing(sqlite3.connect(tmp_path / "tasks.db")) as db:
            assert db.execute("pragma integrity_check").fetchall() == [("ok",)]


@pytest.fixture
async def store(url: str) -> AsyncGenerator[Store]:
    async with open_store(url) as opened:
        yield opened


@pytest.fixture
def engine(store: Store) -> Engine:
    return Engine(store, POLICY)


@pytest.fixture
def submit(engine: Engine, log: Path) -> Submit:
    terms = {tool.name: tool.terms for tool in TOOLS}

    async def submit(tool: str, **arguments: Any) -> Task:
        return await engine.submit(tool, {"log": str(log), **arguments}, terms=terms[tool])

    return submit


@pytest.fixture
def outcome(engine: Engine) -> Outcome:
    async def outcome(task: Task) -> Task:
        """Wait for the task's end, and see that it has exactly one."""
        task = await engine.finished(task, PATIENCE)
        assert task.status.is_terminal, task
        assert (bool(task.result), bool(task.failure)) == (task.status == "completed", task.status == "failed"), task
        assert task.lease is None
        assert await engine.get(task.id) == task
        return task

    return outcome
