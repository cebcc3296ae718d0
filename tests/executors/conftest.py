"""A job service, and an engine with tools that are its jobs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from coatcheck import Engine, open_engine
from coatcheck.executors import HttpJobs, Jobs
from tests.executors.programs import PACE, POLICY
from tests.executors.stage import PATIENCE, Stage


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    started = Stage(tmp_path_factory.mktemp("service"))
    yield started
    await started.close()


@pytest.fixture
async def stage(running: Stage) -> Stage:
    """A service that has no jobs yet."""
    await running.begin_anew()
    return running


@pytest.fixture
async def executor(stage: Stage) -> AsyncGenerator[HttpJobs]:
    async with stage.executor() as opened:
        yield opened


@pytest.fixture
async def jobs(executor: HttpJobs) -> AsyncGenerator[Jobs]:
    made = Jobs(executor, pace=PACE)
    yield made
    await made.settle(PATIENCE)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncGenerator[Engine]:
    async with open_engine(f"sqlite:///{tmp_path}/tasks.db", policy=POLICY) as opened:
        yield opened
