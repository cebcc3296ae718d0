"""Ending a detached task: by its caller, by an operator, by a crash, and whatever the tool thinks of it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from coatcheck import Engine, Task, Worker, open_engine
from coatcheck.liveness import interrupt, is_dead, name_worker
from tests.detached.app import POLICIES, tools
from tests.detached.conftest import PATIENCE, Hurried, Says, failure, gone, is_alive, result, words

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def ended(engine: Engine, task: Task) -> Task:
    """Wait for the end of a task as any process may that comes to the store."""
    async with asyncio.timeout(PATIENCE):
        while not task.status.is_terminal:
            await engine.sweep()
            task = await engine.wait(task, 0.1)
    return task


# Cancelling


@pytest.mark.parametrize("tool", ["hold", "hold_in_thread"])
async def test_a_tool_that_is_cancelled_cleans_up_and_its_process_ends(
    engine: Engine, worker: Worker, holding: Says, log: Path, tool: str
) -> None:
    task = await worker.submit(tool, {"log": str(log)})
    pid, *_ = await holding(task)
    assert (await engine.cancel(task.id)).status == "cancelled"
    await gone(pid)
    assert words(log) == ["cleaned"]
    assert (await engine.get(task.id)).status == "cancelled"


async def test_what_a_cancelled_tool_leaves_running_ends_with_it(engine: Engine, worker: Worker, holding: Says) -> None:
    task = await worker.submit("leave")
    pids = await holding(task)
    await engine.cancel(task.id)
    for pid in pids:
        await gone(pid)


@pytest.mark.parametrize("tool", ["ignore", "ignore_on_loop", "block", "freeze"])
async def test_the_process_ends_whatever_the_tool_does(impatient: Hurried, holding: Says, tool: str) -> None:
    engine, worker = impatient
    task = await worker.submit(tool)
    pids = await holding(task)
    await engine.cancel(task.id)
    for pid in pids:
        await gone(pid)
    assert (await engine.get(task.id)).status == "cancelled"


async def test_a_task_cancelled_before_its_process_began_is_never_run(engine: Engine, url: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with Worker(engine, tools(url, str(gate), home="tests.detached.app:gated_home")) as worker:
        task = await worker.submit("where")
        writer = await asyncio.to_thread(os.open, gate, os.O_WRONLY)  # returns once the process is there
        await engine.cancel(task.id)
    # The worker ends when nothing is left of it: no process that reads, so nobody can be told anything.
    with pytest.raises(BrokenPipeError):
        await asyncio.to_thread(_write_until_nobody_reads, writer)
    os.close(writer)
    assert (await engine.get(task.id)).attempt == 1


def _write_until_nobody_reads(writer: int) -> None:
    os.set_blocking(writer, True)
    while True:
        os.write(writer, bytes(4096))


async def test_a_task_whose_lifetime_ends_takes_its_process_along(impatient: Hurried, holding: Says) -> None:
    engine, worker = impatient
    task = await worker.submit("block", ttl=600)
    pids = await holding(task)
    late = Engine(engine.store, engine.policy, lambda: engine.clock() + timedelta(seconds=601))
    await late.sweep()
    for pid in pids:
        await gone(pid)


# Signals


async def test_a_process_that_an_operator_ends_gives_a_resumable_task_back(
    engine: Engine, url: str, holding: Says, log: Path
) -> None:
    async with Worker(engine, tools(url)) as worker:
        task = await worker.submit("walk", {"log": str(log), "holds_at": 1})
        pid, *_ = await holding(task)
    os.kill(pid, signal.SIGTERM)
    await gone(pid)
    task = await engine.get(task.id)
    assert (task.status, task.lease, task.losses) == ("working", None, 0)
    async with Worker(engine, tools(url)):
        first, second, third = result(await engine.finished(task, PATIENCE))
    assert first == pid != second == third, "what was done is not done again"
    assert words(log) == ["step 0", "step 1", "step 2"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_process_that_an_operator_ends_fails_a_task_that_may_not_be_run_again(
    engine: Engine, worker: Worker, holding: Says, log: Path, number: signal.Signals
) -> None:
    task = await worker.submit("hold", {"log": str(log)})
    pid, *_ = await holding(task)
    os.kill(pid, number)
    assert "was shut down before the tool had finished" in failure(await engine.finished(task, PATIENCE))
    await gone(pid)
    assert words(log) == ["cleaned"]


async def test_a_process_that_an_operator_ends_ends_even_if_its_loop_is_blocked(
    impatient: Hurried, holding: Says, tmp_path: Path
) -> None:
    engine, worker = impatient
    fifo = tmp_path / "blocked"
    os.mkfifo(fifo)
    task = await worker.submit("block", {"fifo": str(fifo)})
    pids = await holding(task)
    assert await asyncio.to_thread(fifo.read_text) == "blocked"
    os.kill(pids[0], signal.SIGTERM)
    for pid in pids:
        await gone(pid)
    assert "its process has ended" in failure(await ended(engine, task))


# Crashes


async def test_a_killed_process_fails_its_task_for_whoever_looks_next(
    engine: Engine, url: str, holding: Says, log: Path
) -> None:
    async with Worker(engine, tools(url)) as worker:
        task = await worker.submit("hold", {"log": str(log)})
        pid, *_ = await holding(task)
    os.kill(pid, signal.SIGKILL)
    await gone(pid)
    async with open_engine(url) as another:
        task = await ended(another, task)
    assert failure(task) == (
        "Its worker was lost (its process has ended) and the tool is not resumable, so it was not run again"
    )


async def test_a_resumable_task_goes_on_in_another_process(
    engine: Engine, worker: Worker, holding: Says, log: Path
) -> None:
    task = await worker.submit("walk", {"log": str(log), "holds_at": 2})
    pid, *_ = await holding(task)
    os.kill(pid, signal.SIGKILL)
    await gone(pid)
    await engine.sweep()
    done = await engine.finished(task, PATIENCE)
    first, second, third = result(done)
    assert first == second == pid != third
    assert (done.attempt, done.losses) == (4, 1)
    assert words(log) == ["step 0", "step 1", "step 2"]


async def test_a_process_that_stands_still_is_ended_before_another_goes_on(
    engine: Engine, url: str, holding: Says, log: Path
) -> None:
    hasty = Engine(engine.store, POLICIES["hasty"])
    async with Worker(hasty, tools(url, "hasty")) as worker:
        task = await worker.submit("walk", {"log": str(log), "holds_at": 1})
        pid, *_ = await holding(task)
        os.kill(pid, signal.SIGSTOP)
        done = await engine.finished(task, PATIENCE)
        await gone(pid)
    assert done.losses >= 1, "a busy machine may lose another"
    assert words(log)[0] == "step 0"
    assert done.status == "completed"


# Mistaken identity


def changed(worker: str, **parts: object) -> str:
    names = ("host", "pid", "started", "space", "salt")
    return ":".join(str(parts.get(name, value)) for name, value in zip(names, worker.split(":"), strict=True))


MISTAKES: dict[str, Callable[[str], str]] = {
    "started at another time": lambda worker: changed(worker, started=int(worker.split(":")[2]) - 1),
    "counted elsewhere": lambda worker: changed(worker, space="00000000"),
    "another process": lambda worker: changed(worker, pid=os.getpid()),
    "no process": lambda worker: changed(worker, pid=2**22 - 1),
    "not detached": lambda worker: changed(worker, salt="0a0b0c0d"),
    "nonsense": lambda worker: "w",
}


async def test_only_the_process_of_the_task_is_ever_ended(engine: Engine, worker: Worker, holding: Says) -> None:
    task = await worker.submit("ignore")
    pid, *_ = await holding(task)
    lease = (await engine.get(task.id)).lease
    assert lease
    for name, mistake in MISTAKES.items():
        assert not interrupt(mistake(lease.worker), task.id, signal.SIGKILL), name
    assert not interrupt(lease.worker, "another task", signal.SIGKILL)
    assert not interrupt(name_worker(is_detached=True), task.id, signal.SIGKILL), "or this test would not go on"
    assert is_alive(pid)
    assert interrupt(lease.worker, task.id, signal.SIGKILL)
    await gone(pid)
    assert is_dead(lease.worker)


async def test_a_record_of_an_earlier_process_with_the_same_pid_is_a_dead_worker(
    engine: Engine, worker: Worker, holding: Says, log: Path
) -> None:
    task = await worker.submit("hold", {"log": str(log)})
    pid, *_ = await holding(task)
    task = await engine.get(task.id)
    assert task.lease
    stale = changed(task.lease.worker, started=int(task.lease.worker.split(":")[2]) - 1)
    forged = msgspec.structs.replace(
        task, lease=msgspec.structs.replace(task.lease, worker=stale), version=task.version + 1
    )
    assert await engine.store.replace(forged)
    assert "its process has ended" in failure(await ended(engine, task))
    await gone(pid)  # by itself: it sees that the task is no longer its own
