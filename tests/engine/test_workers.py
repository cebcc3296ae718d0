"""How work is run: on the loop, in threads, in processes; with limits, and to an orderly end."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable
from datetime import timedelta
from typing import Any

import psutil
import pytest

from coatcheck import Engine, Policy, Status, SyncContext, TaskContext, ToolFailed, Worker, decode, sweeping, tool
from coatcheck.liveness import name_worker
from coatcheck.payload import encode
from coatcheck.store import EVERYONE, Query, Store
from tests.clock import Clock
from tests.engine.conftest import PATIENCE, finished, until

pytestmark = pytest.mark.anyio
YES: dict[str, Any] = {"action": "accept", "content": {}}


def whole_job(ctx: SyncContext, factor: int) -> dict[str, Any]:
    """Use everything a context has, from outside the loop."""
    ctx.progress(1, 2, "half way")
    ctx.note("noted")
    ctx.output("part")
    product = ctx.step("multiply", lambda: factor * 21)
    return {"product": product, "answer": ctx.elicit("Fine?", {"type": "object"}), "pid": os.getpid()}


def whole_job_in_process(ctx: SyncContext, factor: int) -> dict[str, Any]:
    return whole_job(ctx, factor)


def raises(ctx: SyncContext) -> None:
    raise ToolFailed("not here", code=7, data=[1])


def dies(ctx: SyncContext) -> None:
    os._exit(3)


def sleeps(ctx: SyncContext, marker: str) -> None:
    ctx.note(f"pid {os.getpid()}")
    time.sleep(600)


@pytest.mark.parametrize("runs", ["auto", pytest.param("process", marks=pytest.mark.slow)])
async def test_a_plain_function_has_the_whole_context(engine: Engine, runs: Any) -> None:
    made = tool(whole_job if runs == "auto" else whole_job_in_process, name="job", runs=runs)
    async with Worker(engine, [made]) as worker:
        task = await worker.submit("job", {"factor": 2})
        asked = await until(engine, task, lambda task: task.input_requests)
        await engine.answer(task.id, None, dict.fromkeys(asked.input_requests, YES))
        done = await finished(engine, task)
    result = decode(done.result or encode(None))
    assert (result["product"], result["answer"]) == (42, YES)
    assert (result["pid"] == os.getpid()) == (runs == "auto")
    assert (done.progress and done.progress.done, done.status_message) == (1, "noted")
    assert [decode(entry.value) for entry in await engine.journal(task.id)] == ["part", 42]


@pytest.mark.slow
async def test_a_process_hands_on_its_error_and_its_sudden_end(engine: Engine) -> None:
    async with Worker(engine, [tool(raises, runs="process"), tool(dies, runs="process")]) as worker:
        raised, died = await worker.submit("raises"), await worker.submit("dies")
        raised, died = await finished(engine, raised), await finished(engine, died)
    assert raised.failure
    assert (raised.failure.message, raised.failure.code, raised.failure.data) == ("not here", 7, encode([1]))
    assert died.failure
    assert "exit code 3" in died.failure.message


@pytest.mark.slow
async def test_cancelling_kills_the_process(engine: Engine) -> None:
    async with Worker(engine, [tool(sleeps, runs="process")]) as worker:
        task = await worker.submit("sleeps", {"marker": "x"})
        noted = await until(engine, task, lambda task: task.status_message)
        pid = int((noted.status_message or "").split()[1])
        await engine.cancel(task.id)
        async with asyncio.timeout(PATIENCE):
            while psutil.pid_exists(pid):  # noqa: ASYNC110  (a process that ends sets no event of ours)
                await asyncio.sleep(0.01)


async def test_the_event_loop_goes_on_while_threads_block(engine: Engine) -> None:
    together = threading.Barrier(10)

    def meet(ctx: SyncContext) -> None:
        together.wait(PATIENCE)

    async with Worker(engine, [tool(meet)]) as worker:
        tasks = [await worker.submit("meet") for _ in range(10)]
        assert {(await finished(engine, task)).status for task in tasks} == {Status.COMPLETED}


async def test_a_cancelled_thread_is_told_and_its_row_is_final_at_once(engine: Engine) -> None:
    started, told = threading.Event(), threading.Event()

    def loops(ctx: SyncContext) -> str:
        started.set()
        while not ctx.is_stopped:
            time.sleep(0.001)
        told.set()
        ctx.check()
        return "never used"

    async with Worker(engine, [tool(loops)]) as worker:
        task = await worker.submit("loops")
        await asyncio.to_thread(started.wait, PATIENCE)
        cancelled = await engine.cancel(task.id)
        assert await asyncio.to_thread(told.wait, PATIENCE)
    assert await engine.get(task.id) == cancelled


async def test_a_thread_that_waits_for_an_answer_is_released_by_a_cancel(engine: Engine) -> None:
    released = threading.Event()

    def asks(ctx: SyncContext) -> None:
        try:
            ctx.elicit("Well?", {"type": "object"})
        finally:
            released.set()

    async with Worker(engine, [tool(asks)]) as worker:
        task = await until(engine, await worker.submit("asks"), lambda task: task.input_requests)
        await engine.cancel(task.id)
        assert await asyncio.to_thread(released.wait, PATIENCE)


async def test_a_tool_that_takes_too_long_is_stopped_and_fails(engine: Engine) -> None:
    stopped = asyncio.Event()

    async def slow(ctx: TaskContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with Worker(engine, [tool(slow, timeout=0.05)]) as worker:
        task = await finished(engine, await worker.submit("slow"))
    assert stopped.is_set()
    assert task.failure
    assert "took longer than" in task.failure.message


@pytest.mark.slow
async def test_waiting_for_a_person_does_not_use_up_the_tools_time(engine: Engine) -> None:
    async def asks(ctx: TaskContext) -> Any:
        return await ctx.elicit("Well?", {"type": "object"})

    async with Worker(engine, [tool(asks, timeout=0.2)]) as worker:
        task = await until(engine, await worker.submit("asks"), lambda task: task.input_requests)
        assert not (await engine.finished(task, timeout=0.6)).status.is_terminal
        await engine.answer(task.id, None, dict.fromkeys(task.input_requests, YES))
        assert (await finished(engine, task)).status is Status.COMPLETED


async def test_a_worker_runs_no_more_at_once_than_it_has_slots(engine: Engine) -> None:
    running, most = 0, 0

    async def counted(ctx: TaskContext) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    async with Worker(engine, [tool(counted)], slots=3) as worker:
        submits = [worker.submit("counted") if number % 2 else engine.submit("counted") for number in range(40)]
        tasks = await asyncio.gather(*submits)
        for task in tasks:
            await finished(engine, task)
    assert most == 3


async def test_a_worker_leaves_tools_it_does_not_know_to_others(engine: Engine) -> None:
    async def known(ctx: TaskContext) -> None: ...

    async def late(ctx: TaskContext) -> None: ...

    async with Worker(engine, [tool(known)]) as worker:
        strange = [await engine.submit("strange") for _ in range(5)]
        other = await engine.submit("late")
        assert (await finished(engine, await engine.submit("known"))).status is Status.COMPLETED
        worker.add(tool(late))
        assert (await finished(engine, other)).status is Status.COMPLETED
    assert [(await engine.get(task.id)).attempt for task in strange] == [0] * 5


async def _stop_in_the_middle(engine: Engine, *, resumable: bool, grace: float) -> tuple[str, Callable[[], bool]]:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def long(ctx: TaskContext) -> str:
        started.set()
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            stopped.set()
            raise
        return "done"

    async with Worker(engine, [tool(long, resumable=resumable)], grace=grace) as worker:
        task = await worker.submit("long")
        await asyncio.wait_for(started.wait(), PATIENCE)
    return task.id, stopped.is_set


async def test_a_worker_that_stops_lets_its_work_finish(engine: Engine) -> None:
    task_id, was_stopped = await _stop_in_the_middle(engine, resumable=False, grace=PATIENCE)
    assert (await engine.get(task_id)).result == encode("done")
    assert not was_stopped()


async def test_after_its_grace_resumable_work_is_released_for_others(engine: Engine) -> None:
    task_id, was_stopped = await _stop_in_the_middle(engine, resumable=True, grace=0.001)
    task = await engine.get(task_id)
    assert was_stopped()
    assert (task.status, task.is_waiting, task.losses) == (Status.WORKING, True, 0)


async def test_after_its_grace_other_work_fails_honestly(engine: Engine) -> None:
    task_id, was_stopped = await _stop_in_the_middle(engine, resumable=False, grace=0.001)
    task = await engine.get(task_id)
    assert was_stopped()
    assert task.failure
    assert "shut down" in task.failure.message


@pytest.mark.slow
async def test_a_long_task_keeps_its_lease(store: Store) -> None:
    engine = Engine(store, Policy(lease=timedelta(seconds=1)))

    async def long(ctx: TaskContext) -> str:
        await asyncio.sleep(3)
        return "done"

    async with Worker(engine, [tool(long)]) as worker:
        done = await finished(engine, await worker.submit("long"))
    assert (done.result, done.attempt) == (encode("done"), 1)


async def test_stopping_at_once_after_a_submit_loses_nothing(engine: Engine) -> None:
    async def long(ctx: TaskContext) -> None:
        await asyncio.Event().wait()

    async with Worker(engine, [tool(long, resumable=True)], grace=0.001) as worker:
        task = await worker.submit("long")
    assert (await engine.get(task.id)).is_waiting
    refused = await worker.submit("long")
    assert refused.is_waiting, "a stopped worker starts nothing, but the task is kept for others"


async def test_a_caller_that_goes_away_in_the_middle_leaves_a_task_that_runs(engine: Engine, store: Store) -> None:
    async def quick(ctx: TaskContext) -> str:
        return "done"

    async with Worker(engine, [tool(quick)]) as worker:
        submit = asyncio.create_task(worker.submit("quick"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        submit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submit
    tasks = await store.list(Query(owner=EVERYONE))
    assert [task.result for task in tasks] == [encode("done")] * len(tasks)


@pytest.mark.parametrize("error", [SystemExit(2), StopIteration("x"), ToolFailed("x", data=object())])
@pytest.mark.parametrize("is_async", [True, False])
async def test_strange_errors_end_the_task_and_nothing_else(
    engine: Engine, error: BaseException, is_async: bool
) -> None:
    async def on_loop(ctx: TaskContext) -> None:
        raise error

    def in_thread(ctx: SyncContext) -> None:
        raise error

    async with Worker(engine, [tool(on_loop if is_async else in_thread, name="odd")]) as worker:
        assert (await finished(engine, await worker.submit("odd"))).status is Status.FAILED


# Looking after the tasks of others


@pytest.fixture
async def slow_sweeper(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Engine]:
    """A worker's engine, for which looking for the dead takes so long that it should hardly ever do it."""
    monkeypatch.setattr(sweeping, "_SHARE", 1e9)
    engine = Engine(store, Policy(lease=timedelta(seconds=0.4)), clock)
    async with Worker(engine, [tool(raises)]):
        yield engine


async def test_what_is_overdue_is_found_however_long_it_takes_to_look_for_the_dead(
    slow_sweeper: Engine, clock: Clock
) -> None:
    engine = slow_sweeper
    (held,) = await engine.claim([await engine.submit("other")], "elsewhere")
    clock.turn(seconds=1)
    stalled = await until(engine, held, lambda task: task.lease and task.lease.is_stalled)
    clock.turn(seconds=1)
    assert (await finished(engine, stalled)).status is Status.FAILED


async def test_the_dead_are_found_within_a_lease_however_long_it_takes_to_look_for_them(slow_sweeper: Engine) -> None:
    host, pid, started, *rest = name_worker().split(":")
    dead = ":".join((host, pid, f"{int(started) + 1}", *rest))  # another process has its number by now
    for _ in range(2):
        (held,) = await slow_sweeper.claim([await slow_sweeper.submit("other")], dead)
        assert (await finished(slow_sweeper, held)).status is Status.FAILED
