"""The servers that are measured against each other do the same work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.line import Settings
from benchmarks.load.holding import cancel_all, create_all, gauge
from benchmarks.load.session import Session, sessions
from benchmarks.load.trips import run_task
from benchmarks.serving import Program, Served, bare, coatcheck, fastmcp, require, serving

pytestmark = pytest.mark.slow


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(folder=tmp_path, rounds=1, is_quick=True)


async def _check_plain(server: Served) -> None:
    async with Session(server.address) as session:
        found = await session.call("plain", {"a": 1, "b": 2})
        assert found["content"][0]["text"] == "3"
        assert found["structuredContent"] == {"result": 3}


async def _check_tasks(server: Served) -> None:
    async with sessions(server.address, 2) as clients:
        assert (await run_task(clients[0], "noop", {})).status == "completed"
        tasks = await create_all(clients, "nap", {"seconds": 600}, 3)
        async with asyncio.timeout(10):
            while await gauge(clients[0], "running") < len(tasks):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert await cancel_all(clients, tasks) == {"cancelled": 3}


@pytest.mark.parametrize("program", [coatcheck, fastmcp])
def test_tasks(settings: Settings, program: Callable[[Settings], Program]) -> None:
    async def run() -> None:
        async with serving(program(settings)) as server:
            await _check_plain(server)
            await _check_tasks(server)

    asyncio.run(run())


def test_the_sdk_alone(settings: Settings) -> None:
    async def run() -> None:
        async with serving(bare(settings)) as server:
            await _check_plain(server)

    asyncio.run(run())


def test_work_that_was_not_done_is_not_measured() -> None:
    with pytest.raises(RuntimeError, match="Tasks that sleep: 9, not 10"):
        require(9, 10, "Tasks that sleep")
