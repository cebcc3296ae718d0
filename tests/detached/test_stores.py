"""Detached tasks on stores that other machines reach as well."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from coatcheck import Engine, Worker
from tests.databases.fixtures import new_url
from tests.detached.conftest import PATIENCE, Hurried, Says, failure, gone, result

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(params=["redis", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_url(request.param, tmp_path)


async def test_a_task_runs_in_a_process_of_its_own_with_its_log_in_the_state_folder(
    engine: Engine, worker: Worker, state_folder: Path
) -> None:
    task = await engine.finished(await worker.submit("where"), PATIENCE)
    assert result(task)["files"]["1"] == str(state_folder / "coatcheck" / "logs" / f"{task.id}.log")
    assert task.attempt == 2


async def test_a_process_that_hangs_is_ended_when_its_task_is_cancelled(impatient: Hurried, holding: Says) -> None:
    engine, worker = impatient
    task = await worker.submit("block")
    pids = await holding(task)
    await engine.cancel(task.id)
    for pid in pids:
        await gone(pid)


async def test_a_killed_process_fails_its_task(engine: Engine, worker: Worker, holding: Says) -> None:
    task = await worker.submit("ignore")
    pid, *_ = await holding(task)
    os.kill(pid, signal.SIGKILL)
    await gone(pid)
    await engine.sweep()
    assert "its process has ended" in failure(await engine.finished(task, PATIENCE))
