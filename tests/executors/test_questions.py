"""What a job asks is asked by its task, and the answer goes to the job."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from coatcheck import Engine, Policy, Status, Task, Worker, decode, open_engine
from coatcheck.executors import Jobs, Routes
from tests.executors.programs import PACE
from tests.executors.stage import PATIENCE, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SCHEMA = {"type": "object", "properties": {"copies": {"type": "integer"}}, "required": ["copies"]}
QUESTIONS = {"how-many": {"message": "How many copies?", "schema": SCHEMA}}
ANSWER = {"action": "accept", "content": {"copies": 3}}


async def asked(engine: Engine, task: Task) -> tuple[Task, str]:
    task = await engine.settled(task, PATIENCE)
    assert task.status is Status.INPUT_REQUIRED, task
    (key,) = task.input_requests
    assert decode(task.input_requests[key].params)["message"] == "How many copies?"
    return task, key


async def asking_job(stage: Stage) -> str:
    job_id: str = (await stage.job())["id"]
    await stage.tell(job_id, questions=QUESTIONS)
    return job_id


async def answered(stage: Stage) -> Any:
    (job,) = await stage.until(lambda jobs: "answers" in jobs[0])
    return job["answers"]


async def test_the_caller_is_asked_and_the_job_gets_the_answer(engine: Engine, jobs: Jobs, stage: Stage) -> None:
    async with Worker(engine, [jobs.tool("print")]) as worker:
        task = await worker.submit("print")
        job_id = await asking_job(stage)
        task, key = await asked(engine, task)
        await stage.break_next("answer", {"status": 503})
        await engine.answer(task.id, None, {key: ANSWER})
        assert await answered(stage) == {"how-many": ANSWER}
        await stage.tell(job_id, state="succeeded", result="printed")
        assert decode((await engine.finished(task, PATIENCE)).result) == "printed"


async def test_whoever_cannot_answer_is_nobody_to_the_job(engine: Engine, jobs: Jobs, stage: Stage) -> None:
    async with Worker(engine, [jobs.tool("print")], grace=0.01) as worker:
        task = await worker.submit("print")
        await asking_job(stage)
        task, key = await asked(engine, task)
        await engine.answer_with_error(task.id, None, key, message="No idea", code=-1)
        assert await answered(stage) == {"how-many": {"action": "cancel"}}


async def test_what_the_job_does_not_want_to_know_any_more_is_withdrawn(
    engine: Engine, jobs: Jobs, stage: Stage
) -> None:
    async with Worker(engine, [jobs.tool("print")]) as worker:
        task = await worker.submit("print")
        job_id = await asking_job(stage)
        task, _ = await asked(engine, task)
        await stage.tell(job_id, questions={})
        async with asyncio.timeout(PATIENCE):
            while task.status is Status.INPUT_REQUIRED:
                task = await engine.wait(task, PATIENCE)
        assert task.status is Status.WORKING
        await stage.tell(job_id, questions={"again": QUESTIONS["how-many"]})
        task, _ = await asked(engine, task)
        await stage.tell(job_id, state="failed", error={"message": "Nobody answered"})
        task = await engine.finished(task, PATIENCE)
    assert task.failure
    assert task.failure.message == "Nobody answered"


async def test_a_question_is_parked_and_its_answer_reaches_the_job(tmp_path: Path, jobs: Jobs, stage: Stage) -> None:
    policy = Policy(park_after=timedelta(seconds=0.1))
    async with open_engine(f"sqlite:///{tmp_path}/tasks.db", policy=policy) as engine:
        async with Worker(engine, [jobs.tool("print")]) as worker:
            task = await worker.submit("print")
            job_id = await asking_job(stage)
            task, key = await asked(engine, task)
            async with asyncio.timeout(PATIENCE):
                while task.lease:
                    task = await engine.newer(task, PATIENCE) or task
        await engine.answer(task.id, None, {key: ANSWER})
        async with Worker(engine, [jobs.tool("print")]):
            assert await answered(stage) == {"how-many": ANSWER}
            await stage.tell(job_id, state="succeeded", result="printed")
            task = await engine.finished(task, PATIENCE)
    assert (decode(task.result), task.attempt) == ("printed", 2)
    assert len(await stage.asked("submit")) == 1
    assert await stage.asked("cancel") == []


async def test_a_question_that_cannot_be_answered_fails_the_task_and_ends_the_job(engine: Engine, stage: Stage) -> None:
    async with stage.executor(routes=Routes(answer=None)) as executor:
        jobs = Jobs(executor, pace=PACE)
        async with jobs.looked_after(engine), Worker(engine, [jobs.tool("print")]) as worker:
            task = await worker.submit("print")
            await asking_job(stage)
            task, key = await asked(engine, task)
            await engine.answer(task.id, None, {key: ANSWER})
            task = await engine.finished(task, PATIENCE)
            assert task.failure
            assert task.failure.message == "farm takes no answers, as there is no route for them"
            await stage.until(lambda jobs: jobs[0]["state"] == "cancelled")
