"""What a caller can count on: submit, watch, cancel, collect."""

import asyncio
from datetime import timedelta

import pytest

from coatcheck import (
    AlreadyFinished,
    Engine,
    IdempotencyConflict,
    Policy,
    QuotaExceeded,
    Status,
    TaskContext,
    TaskNotFound,
    ToolFailed,
    Worker,
    decode,
    tool,
)
from coatcheck.lifecycle import Completed
from coatcheck.payload import encode
from coatcheck.store import Store
from coatcheck.task import Failure
from tests.clock import Clock
from tests.engine.conftest import PATIENCE, finished, until

pytestmark = pytest.mark.anyio


async def add(ctx: TaskContext, a: int, b: int = 1) -> dict[str, int]:
    return {"sum": a + b}


class Endless:
    """A tool that says when it has started and when it was stopped."""

    def __init__(self) -> None:
        self.started, self.stopped = asyncio.Event(), asyncio.Event()

    async def run(self, ctx: TaskContext) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


async def test_a_submitted_call_is_run_and_its_result_collected(engine: Engine) -> None:
    async with Worker(engine, [tool(add)]) as worker:
        task = await worker.submit("add", {"a": 2}, owner="ann")
        assert task.status is Status.WORKING
        done = await finished(engine, task)
    assert (done.status, done.result) == (Status.COMPLETED, encode({"sum": 3}))
    assert await engine.get(task.id, "ann") == done


async def test_a_task_waits_for_a_worker_that_comes_later(engine: Engine) -> None:
    task = await engine.submit("add", {"a": 2})
    async with Worker(engine, [tool(add)]):
        assert decode((await finished(engine, task)).result or encode(None)) == {"sum": 3}


async def test_a_call_this_process_can_run_at_once_costs_two_writes(engine: Engine) -> None:
    async with Worker(engine, [tool(add)]) as worker:
        done = await finished(engine, await worker.submit("add", {"a": 2}))
    assert done.version == 3, "submitted and claimed in one write, then the outcome; versions count changes from 1"


async def test_a_tool_that_raises_fails_its_task_with_the_reason(engine: Engine) -> None:
    async def broken(ctx: TaskContext) -> None:
        raise RuntimeError("no luck")

    async def refusing(ctx: TaskContext) -> None:
        raise ToolFailed("not today", code=-32050, data={"retry": 5})

    async with Worker(engine, [tool(broken), tool(refusing)]) as worker:
        plain = await finished(engine, await worker.submit("broken"))
        typed = await finished(engine, await worker.submit("refusing"))
    assert (plain.status, plain.failure) == (Status.FAILED, Failure(message="RuntimeError: no luck"))
    assert typed.failure == Failure(message="not today", code=-32050, data=encode({"retry": 5}))


async def test_a_tool_that_returns_no_json_fails_and_says_so(engine: Engine) -> None:
    async def strange(ctx: TaskContext) -> object:
        return object()

    async with Worker(engine, [tool(strange)]) as worker:
        task = await finished(engine, await worker.submit("strange"))
    assert task.failure
    assert "returned no JSON" in task.failure.message


async def test_text_with_half_a_surrogate_pair_costs_nobody_the_result(engine: Engine) -> None:
    async def torn(ctx: TaskContext) -> dict[str, list[str]]:
        return {"text": ["a\ud83d"]}

    async with Worker(engine, [tool(torn)]) as worker:
        task = await finished(engine, await worker.submit("torn"))
    assert task.result == encode({"text": ["a?"]})


async def test_cancelling_stops_the_work_and_the_task_stays_cancelled(engine: Engine) -> None:
    endless = Endless()
    async with Worker(engine, [tool(endless.run, name="endless")]) as worker:
        task = await worker.submit("endless", owner="ann")
        await asyncio.wait_for(endless.started.wait(), PATIENCE)
        cancelled = await engine.cancel(task.id, "ann", "changed my mind")
        assert (cancelled.status, cancelled.status_message) == (Status.CANCELLED, "changed my mind")
        await asyncio.wait_for(endless.stopped.wait(), PATIENCE)
    assert await engine.get(task.id, "ann") == cancelled
    with pytest.raises(AlreadyFinished):
        await engine.cancel(task.id, "ann")


async def test_a_result_that_comes_after_the_cancel_is_refused(engine: Engine) -> None:
    task = await engine.submit("add", owner="ann")
    (held,) = await engine.claim([task], "w")
    await engine.cancel(task.id, "ann")
    with pytest.raises(AlreadyFinished):
        await engine.report(held, Completed(held.attempt, encode({})))


async def test_work_that_ignores_its_cancelling_changes_nothing(store: Store) -> None:
    engine = Engine(store, Policy(unwind=timedelta(seconds=0.01)))
    started, go_on = asyncio.Event(), asyncio.Event()

    async def stubborn(ctx: TaskContext) -> str:
        started.set()
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    async with Worker(engine, [tool(stubborn)], slots=1) as worker:
        task = await worker.submit("stubborn")
        await asyncio.wait_for(started.wait(), PATIENCE)
        cancelled = await engine.cancel(task.id)
        other = await worker.submit("stubborn")
        go_on.set()
        assert (await finished(engine, other)).status is Status.COMPLETED, "its slot was given back"
    assert await engine.get(task.id) == cancelled


async def test_unknown_foreign_and_expired_tasks_look_the_same(engine: Engine, clock: Clock) -> None:
    task = await engine.submit("add", owner="ann")
    texts: set[str] = set()
    for task_id, owner in (("unknown", "ann"), (task.id, "bob"), (task.id, None)):
        for verb in (engine.get(task_id, owner), engine.cancel(task_id, owner), engine.journal(task_id, owner)):
            with pytest.raises(TaskNotFound) as refusal:
                await verb
            texts.add(str(refusal.value).replace(task_id, "ID"))
    clock.turn(hours=1)
    with pytest.raises(TaskNotFound) as refusal:
        await engine.get(task.id, "ann")
    assert texts == {str(refusal.value).replace(task.id, "ID")}


async def test_an_expired_task_is_forgotten_and_its_work_stopped(engine: Engine, clock: Clock) -> None:
    endless = Endless()
    async with Worker(engine, [tool(endless.run, name="endless")]) as worker:
        await worker.submit("endless", ttl=60)
        await asyncio.wait_for(endless.started.wait(), PATIENCE)
        clock.turn(seconds=60)
        await engine.sweep()
        await asyncio.wait_for(endless.stopped.wait(), PATIENCE)


async def test_the_same_key_and_arguments_give_the_same_task(engine: Engine, clock: Clock) -> None:
    first = await engine.submit("add", {"a": 1, "b": 2}, owner="ann", idempotency_key="k")
    assert await engine.submit("add", {"b": 2, "a": 1}, owner="ann", idempotency_key="k") == first
    assert (await engine.submit("add", {"a": 1, "b": 2}, owner="bob", idempotency_key="k")).id != first.id
    for call, arguments in (("add", {"a": 1}), ("sub", {"a": 1, "b": 2})):
        with pytest.raises(IdempotencyConflict):
            await engine.submit(call, arguments, owner="ann", idempotency_key="k")
    clock.turn(hours=1)
    assert (await engine.submit("add", {"a": 9}, owner="ann", idempotency_key="k")).id != first.id


async def test_a_repeated_submit_does_not_run_twice(engine: Engine) -> None:
    runs: list[int] = []

    async def count(ctx: TaskContext) -> None:
        runs.append(1)

    async with Worker(engine, [tool(count)]) as worker:
        tasks = await asyncio.gather(*(worker.submit("count", idempotency_key="k") for _ in range(20)))
        await finished(engine, tasks[0])
    assert (len({task.id for task in tasks}), len(runs)) == (1, 1)


async def test_the_quota_refuses_before_anything_is_written(engine: Engine) -> None:
    tasks = [await engine.submit("add", owner="ann") for _ in range(16)]
    with pytest.raises(QuotaExceeded):
        await engine.submit("add", owner="ann")
    assert len(await engine.list("ann")) == 16
    await engine.submit("add", owner="bob")
    await engine.submit("add")
    await engine.cancel(tasks[0].id, "ann")
    await engine.submit("add", owner="ann")


async def test_a_listing_pages_through_the_callers_own_living_tasks(engine: Engine, clock: Clock) -> None:
    ids: list[str] = []
    for number in range(10):
        ids.insert(0, (await engine.submit("add", {"n": number}, owner="ann")).id)
        clock.turn(minutes=5)
    await engine.submit("add", owner="bob")
    clock.turn(minutes=22)
    seen = [task.id for task in await engine.list("ann", limit=3)]
    last = await engine.get(seen[-1], "ann")
    seen += [task.id for task in await engine.list("ann", after=last.position, limit=50)]
    assert seen == ids[:7], "newest first; the first three have expired, though no sweep has been"


async def test_waiting_returns_at_the_first_change_or_gives_the_task_back(engine: Engine) -> None:
    task = await engine.submit("add")
    assert await engine.wait(task, timeout=0) == task
    change = asyncio.create_task(engine.wait(task, timeout=PATIENCE))
    await asyncio.sleep(0)
    cancelled = await engine.cancel(task.id)
    assert await change == cancelled
    assert await engine.finished(cancelled) == cancelled


@pytest.mark.slow
async def test_a_heartbeat_wakes_no_caller(store: Store, clock: Clock) -> None:
    engine = Engine(store, Policy(lease=timedelta(seconds=0.1)), clock)

    async def endless(ctx: TaskContext) -> None:
        await asyncio.Event().wait()

    async with Worker(engine, [tool(endless)], grace=0.01) as worker:
        task = renewed = await worker.submit("endless")
        async with asyncio.timeout(PATIENCE):
            while renewed.version < task.version + 3:
                clock.turn(seconds=0.04)  # after each one only: none is ever late, which would be news for callers
                renewed = await store.get(task.id, newer_than=renewed.version, timeout=PATIENCE) or renewed
        assert renewed.updated_at == task.updated_at
        same = await engine.wait(task, timeout=0.2)
    assert same.updated_at == task.updated_at


async def test_progress_is_seen_and_never_runs_backwards(engine: Engine) -> None:
    go_on = asyncio.Event()

    async def steps(ctx: TaskContext) -> None:
        await ctx.progress(1, 4, "first")
        await go_on.wait()
        await ctx.progress(3, 4)
        await ctx.progress(2, 4, "second")
        await ctx.note("third")

    async with Worker(engine, [tool(steps)]) as worker:
        task = await worker.submit("steps")
        seen = await until(engine, task, lambda task: task.progress)
        assert seen.progress
        assert (seen.progress.done, seen.progress.total, seen.status_message) == (1, 4, "first")
        go_on.set()
        done = await finished(engine, task)
    assert done.progress
    assert (done.progress.done, done.status_message) == (3, "third")


async def test_much_progress_is_few_writes_and_the_last_one_is_kept(engine: Engine) -> None:
    async def busy(ctx: TaskContext) -> None:
        for done in range(1001):
            await ctx.progress(done, 1000, f"step {done}")

    async with Worker(engine, [tool(busy)]) as worker:
        done = await finished(engine, await worker.submit("busy"))
    assert done.progress
    assert (done.progress.done, done.status_message) == (1000, "step 1000")
    assert done.version < 100
