"""Workers are killed, at every point there is, and stopped: there is one job, and the next worker has its result."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest

from coatcheck import Engine, Status, Task, Terms, Worker, decode
from coatcheck.executor import JobRequest
from coatcheck.executors import HttpJobs, Jobs
from tests.executors.programs import NEVER, work
from tests.executors.stage import PATIENCE, Shown, Stage
from tests.forked import Forked, fork

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WRITES = [f"{when} {what}" for when in ("before", "during", "after") for what in ("record 1", "record 2", "outcome 1")]
REQUESTS = [f"{when} {what}" for when in ("before", "after") for what in ("submit", "status")]
Start = Callable[..., Awaitable[Forked]]


@pytest.fixture
async def start(tmp_path: Path, stage: Stage) -> AsyncGenerator[Start]:
    """Start a worker; return once it works."""
    started: list[Forked] = []

    async def start(tool: str, trap: str = NEVER) -> Forked:
        process, said = await fork(work, f"{tmp_path}/tasks.db", stage.url, tool, trap, stream=1)
        started.append(process)
        async with asyncio.timeout(PATIENCE):
            assert await said.readline() == b"ready\n"
        return process

    yield start
    for process in started:
        await process.clean_up(PATIENCE)


async def submit(engine: Engine, tool: str) -> Task:
    return await engine.submit(tool, {"for": tool}, terms=Terms(resumable=True))


async def job_of(stage: Stage, tool: str) -> str:
    """Wait for the job of a tool; return its id."""

    def ids(jobs: Shown) -> list[str]:
        return [job["id"] for job in jobs if job["body"]["name"] == tool]

    return ids(await stage.until(lambda jobs: bool(ids(jobs))))[0]


async def succeed_all(stage: Stage, wanted: int) -> None:
    """Let all jobs succeed, once there are as many as there should be."""
    for job in await stage.until(lambda jobs: len(jobs) >= wanted):
        if job["state"] == "running":
            await stage.tell(job["id"], state="succeeded", result=job["body"]["arguments"]["for"])


async def test_whenever_a_worker_is_killed_there_is_one_job_and_the_next_has_its_result(
    engine: Engine, jobs: Jobs, stage: Stage, start: Start
) -> None:
    tasks: dict[str, Task] = {}
    for trap in WRITES + REQUESTS:
        tasks[trap] = await submit(engine, trap)
        when, what = trap.split(maxsplit=1)
        if trap in REQUESTS:
            await stage.break_next(what, {"signal": signal.SIGKILL, "is_done": when == "after"})
        process = await start(trap, trap if trap in WRITES else NEVER)
        if what == "outcome 1":
            await stage.tell(await job_of(stage, trap), state="succeeded", result=trap)
        assert await process.ended(PATIENCE) == -signal.SIGKILL, trap
    async with Worker(engine, [jobs.tool(trap) for trap in tasks]):
        await succeed_all(stage, len(tasks))
        for trap, task in tasks.items():
            task = await engine.finished(task, PATIENCE)
            assert (task.status, decode(task.result)) == (Status.COMPLETED, trap), trap
    names = [job["body"]["name"] for job in await stage.jobs()]
    assert sorted(names) == sorted(tasks)
    assert await stage.asked("cancel") == []


async def test_a_worker_that_is_stopped_past_its_lease_and_goes_on_starts_no_second_job(
    engine: Engine, jobs: Jobs, stage: Stage, start: Start
) -> None:
    await stage.break_next("submit", {"signal": signal.SIGSTOP, "is_done": True, "status": 503})
    task = await submit(engine, "render")
    frozen = await start("render")
    await stage.job()
    async with Worker(engine, [jobs.tool("render")]):
        async with asyncio.timeout(PATIENCE):
            while task.attempt < 2:
                task = await engine.newer(task, PATIENCE) or task
        frozen.signal(signal.SIGCONT)
        await stage.until_asked("status")
        await succeed_all(stage, 1)
        task = await engine.finished(task, PATIENCE)
    assert (task.status, task.attempt) == (Status.COMPLETED, 2)
    assert [job["state"] for job in await stage.jobs()] == ["succeeded"]
    assert await stage.asked("cancel") == []


@pytest.mark.parametrize("when", ["before", "after"])
async def test_cancelling_reaches_the_job_of_a_worker_that_was_killed(
    when: str, engine: Engine, jobs: Jobs, stage: Stage, start: Start
) -> None:
    """Also if it was killed before it could write down which job that is."""
    operation = "submit" if when == "before" else "status"
    await stage.break_next(operation, {"signal": signal.SIGKILL, "is_done": True})
    task = await submit(engine, "render")
    assert await (await start("render")).ended(PATIENCE) == -signal.SIGKILL
    await engine.cancel(task.id)
    async with jobs.looked_after(engine):
        await stage.until(lambda jobs: jobs[0]["state"] == "cancelled")
    assert len(await stage.jobs()) == 1


async def test_cancelling_reaches_a_job_whose_request_arrives_after_its_worker_was_killed(
    engine: Engine, executor: HttpJobs, jobs: Jobs, stage: Stage, start: Start
) -> None:
    await stage.break_next("submit", {"signal": signal.SIGKILL})
    task = await submit(engine, "render")
    assert await (await start("render")).ended(PATIENCE) == -signal.SIGKILL
    await engine.cancel(task.id)
    async with jobs.looked_after(engine):
        await stage.until_asked("attach", 2)
        (asked,) = await stage.asked("submit")
        await executor.submit(JobRequest(key=asked["headers"]["idempotency-key"], name="render"))
        await stage.until(lambda jobs: jobs[0]["state"] == "cancelled")


async def test_a_worker_that_is_killed_while_it_cancels_leaves_that_to_others(
    engine: Engine, jobs: Jobs, stage: Stage, start: Start
) -> None:
    await stage.break_next("cancel", {"signal": signal.SIGKILL})
    task = await submit(engine, "render")
    process = await start("render")
    await stage.until_asked("status")
    await engine.cancel(task.id)
    assert await process.ended(PATIENCE) == -signal.SIGKILL
    assert [job["state"] for job in await stage.jobs()] == ["running"]
    async with jobs.looked_after(engine):
        await stage.until(lambda jobs: jobs[0]["state"] == "cancelled")
