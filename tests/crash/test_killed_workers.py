"""Workers killed at every point of a task's life: one outcome, nothing lost, nothing recorded done again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest

from coatcheck import Engine, Policy, Status, Task, Worker, decode
from coatcheck.store import Store
from tests.crash.children import PATIENCE, Children
from tests.crash.conftest import Outcome, Submit, result
from tests.crash.programs import KINDS, TOOLS, steps_taken

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

KILLED = -signal.SIGKILL
EACH_ONCE = {0: 1, 1: 1, 2: 1}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_task_whose_worker_was_killed_before_its_claim_waits_for_another(
    kind: str, url: str, log: Path, engine: Engine, children: Children, submit: Submit, outcome: Outcome
) -> None:
    task = await submit(kind)
    victim = await children.start("work", url, "before:claim:1")
    assert await victim.ended() == KILLED
    assert await engine.get(task.id) == task
    async with Worker(engine, TOOLS):
        done = await outcome(task)
    assert (done.status, done.attempt, done.losses) == (Status.COMPLETED, 1, 0)
    assert steps_taken(log, task) == EACH_ONCE


@pytest.mark.parametrize("kind", KINDS)
async def test_a_task_whose_worker_was_killed_after_its_claim_is_resumed_or_fails_with_the_reason(
    kind: str, url: str, log: Path, engine: Engine, children: Children, submit: Submit, outcome: Outcome
) -> None:
    task = await submit(kind)
    victim = await children.start("work", url, "after:claim:1")
    assert await victim.ended() == KILLED
    assert (await engine.get(task.id)).lease
    async with Worker(engine, TOOLS):
        done = await outcome(task)
    assert_resumed_or_failed(done)
    assert steps_taken(log, task) == (EACH_ONCE if done.resumable else {})


@pytest.mark.parametrize("kind", KINDS)
async def test_a_task_whose_worker_was_killed_at_work_is_resumed_without_repeating_its_step_or_fails(
    kind: str, url: str, log: Path, engine: Engine, children: Children, submit: Submit, outcome: Outcome
) -> None:
    task = await submit(kind, holds=1)
    victim = await children.start("work", url)
    await victim.says("holding")
    await victim.kill()
    async with Worker(engine, TOOLS):
        done = await outcome(task)
    assert_resumed_or_failed(done)
    assert steps_taken(log, task) == (EACH_ONCE if done.resumable else {0: 1})
    if done.resumable:
        assert [step["pid"] for step in result(done)] == [victim.pid, os.getpid(), os.getpid()]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_task_whose_worker_was_killed_before_writing_its_outcome_is_resumed_from_its_records_or_fails(
    kind: str, url: str, log: Path, engine: Engine, children: Children, submit: Submit, outcome: Outcome
) -> None:
    task = await submit(kind)
    victim = await children.start("work", url, "before:outcome:1")
    assert await victim.ended() == KILLED
    assert not (await engine.get(task.id)).status.is_terminal
    async with Worker(engine, TOOLS):
        done = await outcome(task)
    assert_resumed_or_failed(done)
    assert steps_taken(log, task) == EACH_ONCE
    if done.resumable:
        assert {step["pid"] for step in result(done)} == {victim.pid}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_task_whose_worker_was_killed_after_writing_its_outcome_keeps_it(
    kind: str, url: str, log: Path, engine: Engine, children: Children, submit: Submit, outcome: Outcome
) -> None:
    task = await submit(kind)
    victim = await children.start("work", url, "after:outcome:1")
    assert await victim.ended() == KILLED
    done = await engine.get(task.id)
    assert (done.status, done.attempt) == (Status.COMPLETED, 1)
    async with Worker(engine, TOOLS):
        await outcome(await submit(kind))
        await engine.sweep()
    assert await outcome(task) == done
    assert steps_taken(log, task) == EACH_ONCE


@pytest.mark.parametrize(("when", "times"), [("before", 2), ("after", 1)])
async def test_a_step_is_run_again_only_if_its_worker_was_killed_before_the_record_was_durable(
    when: str, times: int, url: str, log: Path, engine: Engine, children: Children, submit: Submit, outcome: Outcome
) -> None:
    task = await submit("resumable")
    victim = await children.start("work", url, f"{when}:record:2")
    assert await victim.ended() == KILLED
    async with Worker(engine, TOOLS):
        assert_resumed_or_failed(await outcome(task))
    assert steps_taken(log, task) == {0: 1, 1: times, 2: 1}


@pytest.mark.parametrize("seed", range(8))
async def test_wherever_a_worker_with_many_tasks_is_killed_each_has_one_honest_outcome(
    seed: int, url: str, log: Path, engine: Engine, children: Children, submit: Submit, outcome: Outcome
) -> None:
    chance = random.Random(seed)
    tasks = [await submit(chance.choice(KINDS)) for _ in range(6)]
    # Six tasks take at least thirty writes: a claim, three records and an outcome each.
    trap = f"{chance.choice(('before', 'during', 'during', 'after'))}:any:{chance.randint(1, 30)}"
    victim = await children.start("work", url, trap)
    assert await victim.ended() == KILLED, trap
    left = [await engine.get(task.id) for task in tasks]
    recorded = [await durable_steps(engine, task) for task in left]
    async with Worker(engine, TOOLS):
        ends = [await outcome(task) for task in tasks]
    for before, steps, end in zip(left, recorded, ends, strict=True):
        taken = steps_taken(log, end)
        assert all(taken[step] == 1 for step in steps), trap
        if before.status.is_terminal:
            assert end == before, trap
        elif before.lease:
            assert_resumed_or_failed(end)
            assert max(taken.values(), default=0) <= (2 if end.resumable else 1), trap
        else:
            assert (end.status, end.attempt, taken) == (Status.COMPLETED, 1, EACH_ONCE), trap


async def test_a_task_that_kills_every_worker_fails_instead_of_killing_them_all(
    url: str, store: Store, engine: Engine, children: Children, submit: Submit, outcome: Outcome
) -> None:
    strict = Engine(store, Policy(max_losses=3))
    task = await submit("resumable", is_deadly=True)
    for loss in (1, 2, 3):
        victim = await children.start("work", url)
        assert await victim.ended() == KILLED
        await strict.sweep()
        assert (await engine.get(task.id)).losses == loss
    done = await outcome(task)
    assert done.failure
    assert "lost 3 times" in done.failure.message


@pytest.mark.parametrize("kind_of_store", ["sqlite"])
async def test_a_tool_in_a_process_of_its_own_does_not_outlive_its_killed_worker(url: str, children: Children) -> None:
    worker = await children.start("work_in_process", url)
    burning = os.pidfd_open(int(await worker.says("burning")))
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(burning, ended.set)
    worker.signal(signal.SIGKILL)
    try:
        await asyncio.wait_for(ended.wait(), PATIENCE / 3)
    finally:
        asyncio.get_running_loop().remove_reader(burning)
        os.close(burning)


async def durable_steps(engine: Engine, task: Task) -> list[int]:
    return [decode(entry.value)["number"] for entry in await engine.journal(task.id)]


def assert_resumed_or_failed(done: Task) -> None:
    """See that losing one worker ended as the task's kind says."""
    assert done.losses == 1
    if done.resumable:
        assert (done.status, done.attempt) == (Status.COMPLETED, 2)
        assert [step["number"] for step in result(done)] == [0, 1, 2]
    else:
        assert (done.status, done.attempt) == (Status.FAILED, 1)
        assert done.failure
        assert "its process has ended" in done.failure.message
        assert "not resumable" in done.failure.message
