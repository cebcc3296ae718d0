"""A store in a file, an engine on it in this process, and processes to kill."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coatcheck import Engine, Task, decode, open_store
from coatcheck.store import Store
from tests.crash.children import PATIENCE, Children
from tests.crash.programs import POLICY, TOOLS

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


@pytest.fixture
async def file(tmp_path: Path) -> AsyncGenerator[Path]:
    """A store's file; sound at the end, whatever was done to its users."""
    path = tmp_path / "tasks.db"
    yield path
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]


@pytest.fixture
async def store(file: Path) -> AsyncGenerator[Store]:
    async with open_store(f"sqlite:///{file}") as opened:
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
