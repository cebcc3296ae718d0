"""Jobs whose tasks have ended while nobody worked on them: found, and stopped, each for itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from coatcheck import Engine, Task, TaskContext, Worker, open_engine, tool
from coatcheck.executors import HttpJobs, Jobs
from coatcheck.executors.caretaker import Caretaker
from tests.clock import Clock
from tests.executors.programs import POLICY
from tests.executors.stage import PATIENCE, Shown, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def engine(clock: Clock) -> AsyncGenerator[Engine]:
    policy = msgspec.structs.replace(POLICY, anonymous_quota=None)
    async with open_engine("memory://", policy=policy) as opened:
        opened.clock = clock
        yield opened


def states(jobs: Shown) -> list[str]:
    return [job["state"] for job in jobs]


async def leave(engine: Engine, jobs: Jobs, stage: Stage, count: int = 1) -> Task:
    """Return a task with so many jobs that run, and no worker."""

    async def render(context: TaskContext) -> Any:
        return await asyncio.gather(*(jobs.run(context, f"part {number}") for number in range(count)))

    before = len(await stage.asked("status"))
    async with Worker(engine, [tool(render, resumable=True)], grace=0.01) as worker:
        task = await worker.submit("render")
        await stage.until(lambda found: len([job for job in found if job["state"] == "running"]) >= count)
        await stage.until_asked("status", before + count)
    await jobs.settle(PATIENCE)
    return await engine.get(task.id)


async def test_a_job_whose_stop_is_refused_keeps_no_other_from_being_stopped(
    engine: Engine, executor: HttpJobs, jobs: Jobs, stage: Stage
) -> None:
    task = await leave(engine, jobs, stage, 2)
    await stage.break_next("cancel", {"status": 422})
    await engine.cancel(task.id)
    caretaker = Caretaker(engine, executor)
    await caretaker.look()
    assert sorted(states(await stage.jobs())) == ["cancelled", "running"]
    await caretaker.look()
    assert len(await stage.asked("cancel")) == 2


async def test_a_job_that_cannot_be_stopped_keeps_no_other_from_being_stopped(
    engine: Engine, jobs: Jobs, stage: Stage, clock: Clock
) -> None:
    asked: list[str] = []

    class Faulty(HttpJobs):
        async def cancel(self, job_id: str) -> None:
            asked.append(job_id)
            if job_id == "job-2":
                raise RuntimeError("No such luck")
            await super().cancel(job_id)

    tasks = [await leave(engine, jobs, stage), await leave(engine, jobs, stage)]
    for task in tasks:
        await engine.cancel(task.id)
    async with Faulty(stage.url, name="farm") as executor:
        caretaker = Caretaker(engine, executor)
        await caretaker.look()
        assert states(await stage.jobs()) == ["cancelled", "running"]
        clock.turn(seconds=10)
        await caretaker.look()
        clock.turn(seconds=5)
        await caretaker.look()
        assert asked.count("job-2") == 2  # it is left alone for as long as it has been at it
        clock.turn(days=1)
        await caretaker.look()
        clock.turn(days=1)
        await caretaker.look()
        assert asked.count("job-2") == 3


async def test_jobs_are_stopped_as_soon_as_a_slow_service_is_well_again(
    engine: Engine, jobs: Jobs, stage: Stage
) -> None:
    task = await leave(engine, jobs, stage)
    await stage.break_next("cancel", {"status": 503, "seconds": 2})
    await engine.cancel(task.id)
    async with jobs.looked_after(engine), asyncio.timeout(20):
        await stage.until(lambda found: states(found) == ["cancelled"])


async def test_the_job_of_a_task_that_expires_while_nobody_works_on_it_is_stopped(
    engine: Engine, executor: HttpJobs, jobs: Jobs, stage: Stage, clock: Clock
) -> None:
    task = await leave(engine, jobs, stage)
    caretaker = Caretaker(engine, executor)
    await caretaker.look()
    clock.turn(hours=2)
    await caretaker.look()
    assert await stage.asked("cancel") == []
    await engine.sweep()
    assert await engine.store.get(task.id) is None
    await stage.break_next("cancel", {"status": 503})
    await caretaker.look()
    await caretaker.look()
    assert states(await stage.jobs()) == ["cancelled"]


async def test_a_job_that_nobody_can_find_is_looked_for_during_some_minutes(
    engine: Engine, executor: HttpJobs, jobs: Jobs, stage: Stage, clock: Clock
) -> None:
    await stage.break_next("submit", {"status": 422})
    async with Worker(engine, [jobs.tool("render")]) as worker:
        await engine.finished(await worker.submit("render"), PATIENCE)
    await jobs.settle(PATIENCE)
    before = len(await stage.asked("attach"))
    caretaker = Caretaker(engine, executor)
    for _ in range(1000):
        await caretaker.look()
        clock.turn(seconds=1)
    assert 5 <= len(await stage.asked("attach")) - before <= 15


async def test_only_the_first_look_reads_all_tasks(
    engine: Engine, executor: HttpJobs, jobs: Jobs, stage: Stage, clock: Clock
) -> None:
    unwanted, kept = await leave(engine, jobs, stage), await leave(engine, jobs, stage)
    for _ in range(1000):
        await engine.cancel((await engine.submit("other")).id)
    caretaker = Caretaker(engine, executor)
    clock.turn(minutes=10)
    assert await caretaker.look() == 1002
    await engine.cancel(unwanted.id)
    late = Engine(engine.store, POLICY, clock=lambda: clock.now - timedelta(seconds=20))
    await late.cancel((await leave(late, jobs, stage)).id)
    assert await caretaker.look() < 200
    assert states(await stage.jobs()) == ["cancelled", "running", "cancelled"]
    clock.turn(minutes=10)
    for _ in range(3):
        assert await caretaker.look() < 200
    assert len(await stage.asked("cancel")) == 2
    await engine.cancel(kept.id)
    await caretaker.look()
    assert states(await stage.jobs()) == ["cancelled"] * 3
