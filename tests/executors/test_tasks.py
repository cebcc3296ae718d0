"""A task whose work is a job elsewhere: what is said of it, how it ends, and what ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from coatcheck import Engine, Policy, Status, Task, TaskContext, Terms, Worker, decode, tool
from coatcheck.errors import AlreadyFinished
from coatcheck.executor import JobRequest
from coatcheck.executors import HttpJobs, Jobs
from coatcheck.executors.caretaker import Caretaker
from coatcheck.lifecycle import Completed, Released
from coatcheck.payload import encode
from coatcheck.server.bodies.plain_context import PlainContext
from tests.executors.programs import PACE
from tests.executors.stage import PATIENCE, Shown, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def until(engine: Engine, task: Task, is_so: Callable[[Task], bool]) -> Task:
    async with asyncio.timeout(PATIENCE):
        while not is_so(task):
            task = await engine.wait(task, PATIENCE)
    return task


def states(*wanted: str) -> Callable[[Shown], bool]:
    return lambda jobs: [job["state"] for job in jobs] == list(wanted)


async def test_a_task_is_a_job_and_has_its_result(engine: Engine, jobs: Jobs, stage: Stage) -> None:
    async with Worker(engine, [jobs.tool("render")]) as worker:
        task = await worker.submit("render", {"scene": "beach"})
        job = await stage.job()
        assert job["body"] == {
            "name": "render",
            "arguments": {"scene": "beach"},
            "deadline": task.expires_at and task.expires_at.isoformat(),
        }
        assert task.id not in str(job)  # it is a secret between us and our caller
        await stage.tell(job["id"], progress={"done": 1, "total": 3}, message="The first frame")
        task = await until(engine, task, lambda task: task.progress is not None)
        assert task.progress
        assert (task.progress.done, task.progress.total, task.status_message) == (1, 3, "The first frame")
        await stage.tell(job["id"], message="The second frame")
        task = await until(engine, task, lambda task: task.status_message == "The second frame")
        await stage.tell(job["id"], state="succeeded", result={"frames": ["x" * 1000] * 2000})
        task = await engine.finished(task, PATIENCE)
    assert task.status is Status.COMPLETED
    assert decode(task.result) == {"frames": ["x" * 1000] * 2000}
    assert len(await stage.jobs()) == 1


async def test_a_job_whose_result_is_too_large_fails_its_task(engine: Engine, jobs: Jobs, stage: Stage) -> None:
    narrow = Engine(engine.store, Policy(max_result=1000))
    async with Worker(narrow, [jobs.tool("render")]) as worker:
        task = await worker.submit("render", {})
        await stage.tell((await stage.job())["id"], state="succeeded", result={"frames": "x" * 1000})
        task = await narrow.finished(task, PATIENCE)
    assert task.failure
    assert task.failure.message.startswith("The tool's result takes 1013 bytes of JSON, but at most 1000")


@pytest.mark.parametrize(
    ("ending", "message", "code", "data"),
    [
        ({"state": "failed", "error": {"message": "No paper", "code": 7, "data": [1]}}, "No paper", 7, [1]),
        ({"state": "failed", "error": {"message": "No ink", "code": "E_INK"}}, "No ink", None, {"code": "E_INK"}),
        ({"state": "failed"}, "The job has failed, and gave no reason", None, None),
        ({"state": "failed", "message": "Jammed"}, "Jammed", None, None),
        ({"state": "cancelled"}, "The job was cancelled at farm, not by its task", None, None),
    ],
)
async def test_a_job_that_fails_fails_its_task_in_its_own_words(
    ending: dict[str, Any], message: str, code: int | None, data: Any, engine: Engine, jobs: Jobs, stage: Stage
) -> None:
    async with Worker(engine, [jobs.tool("render")]) as worker:
        task = await worker.submit("render")
        await stage.tell((await stage.job())["id"], **ending)
        task = await engine.finished(task, PATIENCE)
    assert task.failure
    assert (task.failure.message, task.failure.code, decode(task.failure.data)) == (message, code, data)
    assert await stage.asked("cancel") == []


async def test_a_job_that_has_vanished_fails_its_task(engine: Engine, jobs: Jobs, stage: Stage) -> None:
    async with Worker(engine, [jobs.tool("render")]) as worker:
        task = await worker.submit("render")
        job = await stage.job()
        await stage.until_asked("status")
        await stage.forget(job["id"])
        task = await engine.finished(task, PATIENCE)
    assert task.failure
    assert task.failure.message.startswith("The job is not known to farm any more")


async def test_a_job_that_is_refused_fails_its_task(engine: Engine, jobs: Jobs, stage: Stage) -> None:
    await stage.break_next("submit", {"status": 422, "body": '{"error": {"message": "No such scene", "code": 12}}'})
    async with Worker(engine, [jobs.tool("render")]) as worker:
        task = await engine.finished(await worker.submit("render"), PATIENCE)
    assert task.failure
    assert (task.failure.message, task.failure.code) == ("farm answered with HTTP 422: No such scene", 12)
    assert await stage.jobs() == []


# What ends with the task


async def test_cancelling_the_task_cancels_the_job(engine: Engine, jobs: Jobs, stage: Stage) -> None:
    async with Worker(engine, [jobs.tool("render")]) as worker:
        task = await worker.submit("render")
        await stage.job()
        await engine.cancel(task.id)
        await stage.until(states("cancelled"))


async def test_cancelling_reaches_a_job_that_is_just_being_submitted(engine: Engine, jobs: Jobs, stage: Stage) -> None:
    await stage.break_next("submit", {"is_done": True, "status": 503})  # so that its id is not known yet
    await stage.break_next("submit", *[{"status": 503}] * 1000)
    async with Worker(engine, [jobs.tool("render")]) as worker:
        task = await worker.submit("render")
        await stage.until_asked("submit", 2)
        await engine.cancel(task.id)
        await stage.until(states("cancelled"))


async def test_cancelling_reaches_a_job_whose_request_arrives_later(engine: Engine, stage: Stage) -> None:
    gate = asyncio.Event()

    class SlowRoad(HttpJobs):
        async def submit(self, request: JobRequest) -> str:
            await gate.wait()
            return await super().submit(request)

    async with SlowRoad(stage.url, name="farm") as executor:
        jobs = Jobs(executor, pace=PACE)
        async with jobs.looked_after(engine), Worker(engine, [jobs.tool("render")]) as worker:
            task = await worker.submit("render")
            task = await until(engine, task, lambda task: task.entries == 1)
            await engine.cancel(task.id)
            gate.set()
            await stage.until(states("cancelled"))


async def test_cancelling_persists_while_the_service_is_away(engine: Engine, jobs: Jobs, stage: Stage) -> None:
    async with Worker(engine, [jobs.tool("render")]) as worker:
        task = await worker.submit("render")
        await stage.job()
        await stage.break_next("cancel", *[{"status": 503}] * 3, {"status": 401})
        await engine.cancel(task.id)
        await stage.until(states("cancelled"))


async def test_a_job_whose_task_takes_too_long_is_cancelled(engine: Engine, jobs: Jobs, stage: Stage) -> None:
    async with Worker(engine, [jobs.tool("render", timeout=0.5)]) as worker:
        task = await engine.finished(await worker.submit("render"), PATIENCE)
        assert task.status is Status.FAILED
        await stage.until(states("cancelled"))


async def test_a_job_that_its_tool_gives_up_on_is_cancelled(engine: Engine, jobs: Jobs, stage: Stage) -> None:
    async def impatient(context: TaskContext) -> str:
        running = asyncio.ensure_future(jobs.run(context, "render"))
        await stage.job()
        running.cancel()
        await asyncio.wait([running])
        await stage.until(states("cancelled"))
        return "enough"

    async with Worker(engine, [tool(impatient, resumable=True)]) as worker:
        task = await engine.finished(await worker.submit("impatient"), PATIENCE)
    assert decode(task.result) == "enough"


async def test_the_caretaker_cancels_what_nobody_works_on(
    engine: Engine, executor: HttpJobs, jobs: Jobs, stage: Stage
) -> None:
    async with jobs.looked_after(engine), Worker(engine, [jobs.tool("render")], grace=0.01) as worker:
        kept, unwanted = await worker.submit("render"), await worker.submit("render")
        await stage.until(states("running", "running"))
        await stage.until_asked("status", 2)
    caretaker = Caretaker(engine, executor)
    await caretaker.look()
    assert await stage.asked("cancel") == []
    await engine.cancel(unwanted.id)
    await stage.break_next("cancel", {"status": 503})
    await caretaker.look()
    assert states("running", "running")(await stage.jobs())
    await caretaker.look()
    await caretaker.look()
    assert len(await stage.asked("cancel")) == 2
    assert sorted(job["state"] for job in await stage.jobs()) == ["cancelled", "running"]
    assert (await engine.get(kept.id)).status is Status.WORKING


async def test_jobs_are_looked_after_while_a_process_says_so(engine: Engine, jobs: Jobs, stage: Stage) -> None:
    async with Worker(engine, [jobs.tool("render")], grace=0.01) as worker:
        task = await worker.submit("render")
        await stage.until_asked("status")
    async with jobs.looked_after(engine):
        await engine.cancel(task.id)
        await stage.until(states("cancelled"))


# What does not


async def test_the_next_worker_goes_on_with_the_same_job(engine: Engine, jobs: Jobs, stage: Stage) -> None:
    async with Worker(engine, [jobs.tool("render")], grace=0.01) as worker:
        task = await worker.submit("render")
        await stage.until_asked("status")
    async with jobs.looked_after(engine), Worker(engine, [jobs.tool("render")]):
        await stage.tell((await stage.job())["id"], state="succeeded", result=42)
        task = await engine.finished(task, PATIENCE)
    assert (decode(task.result), task.attempt) == (42, 2)
    assert len(await stage.asked("submit")) == 1
    assert await stage.asked("cancel") == []


@pytest.mark.parametrize("is_told", [True, False], ids=["is told", "finds out"])
async def test_a_worker_that_is_late_leaves_the_job_of_a_completed_task_alone(
    is_told: bool, engine: Engine, jobs: Jobs, stage: Stage
) -> None:
    (first,) = await engine.claim([await engine.submit("render", terms=Terms(resumable=True))], "first")
    late = TaskContext(engine, first, park=lambda: None)
    running = asyncio.ensure_future(jobs.run(late, "render"))
    await stage.until_asked("status")
    released = await engine.report(late.task, Released(first.attempt))
    (second,) = await engine.claim([released], "second")
    await engine.report(second, Completed(second.attempt, encode(42)))
    if is_told:
        late.learn(await engine.get(first.id))
        late.is_stopping = True
        running.cancel()
    else:
        await stage.tell((await stage.job())["id"], message="News")
    await asyncio.wait([running])
    assert isinstance(running.cancelled() or running.exception(), bool if is_told else AlreadyFinished)
    await jobs.settle(PATIENCE)
    assert await stage.asked("cancel") == []


async def test_a_task_outlives_a_service_that_is_killed_and_comes_back(
    engine: Engine, jobs: Jobs, stage: Stage
) -> None:
    async with Worker(engine, [jobs.tool("render")]) as worker:
        task = await worker.submit("render")
        job = await stage.job()
        await stage.tell(job["id"], message="Rendering")
        task = await until(engine, task, lambda task: task.status_message == "Rendering")
        await stage.kill()
        task = await until(engine, task, lambda task: "cannot be asked just now" in (task.status_message or ""))
        await stage.start()
        task = await until(engine, task, lambda task: task.status_message == "Rendering")
        await stage.tell(job["id"], state="succeeded", result=42)
        task = await engine.finished(task, PATIENCE)
    assert decode(task.result) == 42
    assert len(await stage.jobs()) == 1


async def test_a_service_that_is_down_is_waited_for(engine: Engine, jobs: Jobs, stage: Stage) -> None:
    await stage.kill()
    async with Worker(engine, [jobs.tool("render")]) as worker:
        task = await worker.submit("render")
        task = await until(engine, task, lambda task: "cannot be asked just now" in (task.status_message or ""))
        await stage.start()
        await stage.tell((await stage.job())["id"], state="succeeded", result=42)
        assert decode((await engine.finished(task, PATIENCE)).result) == 42


@pytest.mark.parametrize("operation", ["submit", "status"])
async def test_what_passes_is_waited_for(operation: str, engine: Engine, jobs: Jobs, stage: Stage) -> None:
    faults = [{"status": status} for status in (500, 502, 503, 504, 408, 425)]
    later = {"status": 429, "headers": {"retry-after": "0"}}
    nonsense = {"status": 200, "body": "<h1>Welcome to the cafe</h1>"}
    await stage.break_next(operation, *faults, later, nonsense, {"is_done": True, "status": 500})
    if operation == "status":
        await stage.break_next(operation, {"status": 401}, {"status": 403})
    async with Worker(engine, [jobs.tool("render")]) as worker:
        task = await worker.submit("render")
        await stage.until_asked(operation, 10 if operation == "submit" else 12)
        (job,) = await stage.jobs()
        await stage.tell(job["id"], state="succeeded", result=42)
        task = await engine.finished(task, PATIENCE)
    assert decode(task.result) == 42
    keys = {asked["headers"]["idempotency-key"] for asked in await stage.asked("submit")}
    assert keys == {job["key"]}


# More than one, and none


async def test_the_jobs_of_a_task_are_told_apart(engine: Engine, jobs: Jobs, stage: Stage) -> None:
    async def both(context: TaskContext) -> list[Any]:
        first = await jobs.run(context, "render", {"scene": "beach"})
        return [first, *await asyncio.gather(*(jobs.run(context, "print", {"copy": n}) for n in (1, 2)))]

    async with Worker(engine, [tool(both, resumable=True)]) as worker:
        task = await worker.submit("both")
        await stage.tell((await stage.job())["id"], state="succeeded", result="rendered")
        await stage.job(2)
        for number, job in enumerate(await stage.jobs()):
            if number:
                await stage.tell(job["id"], state="succeeded", result=job["body"]["arguments"]["copy"])
        assert decode((await engine.finished(task, PATIENCE)).result) == ["rendered", 1, 2]
    assert len({job["key"] for job in await stage.jobs()}) == 3


async def test_a_call_that_is_no_task_has_its_job_too(jobs: Jobs, stage: Stage) -> None:
    running = asyncio.ensure_future(jobs.run(PlainContext("render"), "render"))
    await stage.tell((await stage.job())["id"], state="succeeded", result=42)
    assert await running == 42
    other = asyncio.ensure_future(jobs.run(PlainContext("render"), "render"))
    await stage.job(1)
    other.cancel()
    await stage.until(states("succeeded", "cancelled"))
