"""A store in a file, an engine on it in this process, and no process left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from coatcheck import Engine, Task, Worker, decode, open_engine
from coatcheck.liveness import TASK_VARIABLE
from coatcheck.runners.detached.letter import LETTER_VARIABLE
from tests.detached.app import POLICIES, POLICY, tools

PATIENCE = 60
"""Seconds to wait for what should come soon, on however busy a machine."""
Hurried = tuple[Engine, Worker]
Says = Callable[[Task], Awaitable[list[int]]]


def result(task: Task) -> Any:
    assert task.result, task
    return decode(task.result)


def failure(task: Task) -> str:
    assert task.failure, task
    return task.failure.message


def words(log: Path) -> list[str]:
    """Return what tools wrote down."""
    return log.read_text().splitlines() if log.exists() else []


async def gone(pid: int) -> None:
    """Wait for the end of a process."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop, has_ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, has_ended.set)
    try:
        async with asyncio.timeout(PATIENCE):
            await has_ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def is_alive(pid: int) -> bool:
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


def processes_of(folder: Path, *, also_theirs: bool = False) -> list[int]:
    """Return the processes that were started for tasks of a test, and if wanted also what those have started."""
    ours, found = f"XDG_STATE_HOME={folder}/state\0".encode(), list[int]()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            said = path.read_bytes()
            mark = TASK_VARIABLE if also_theirs else LETTER_VARIABLE
            if ours in said and f"{mark}=".encode() in said:
                found.append(int(path.parent.name))
    return found


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where logs are kept of tasks that are in no file."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(autouse=True)
def nobody_left_behind(tmp_path: Path) -> Generator[None]:
    yield
    for pid in processes_of(tmp_path, also_theirs=True):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/tasks.db"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where tools write down what they did when nobody listens to them any more."""
    return tmp_path / "log.txt"


@pytest.fixture
async def engine(url: str) -> AsyncGenerator[Engine]:
    async with open_engine(url, policy=POLICY) as opened:
        yield opened


@pytest.fixture
async def worker(engine: Engine, url: str) -> AsyncGenerator[Worker]:
    """A host, in this process."""
    async with Worker(engine, tools(url), grace=PATIENCE) as working:
        yield working


@pytest.fixture
async def impatient(engine: Engine, url: str) -> AsyncGenerator[Hurried]:
    """The same for tools that do not end when they should."""
    hurried = Engine(engine.store, POLICIES["impatient"])
    async with Worker(hurried, tools(url, "impatient"), grace=PATIENCE) as working:
        yield hurried, working


@pytest.fixture
def holding(engine: Engine) -> Says:
    async def holding(task: Task) -> list[int]:
        """Wait until the tool says that it holds; return the pids it says."""
        async with asyncio.timeout(PATIENCE):
            while not (task.status_message or "").startswith("holding "):
                assert not task.status.is_terminal, task
                task = await engine.wait(task, PATIENCE)
        return [int(pid) for pid in (task.status_message or "").split()[1:]]

    return holding
