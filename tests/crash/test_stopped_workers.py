"""Workers that stand still and come back, and workers that are asked to go."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from coatcheck import Engine, Status, Task, Worker
from coatcheck.engine import utc_now
from coatcheck.store import Store
from tests.crash.children import PATIENCE, Child, Children
from tests.crash.conftest import Outcome, Submit, result
from tests.crash.programs import KINDS, NEVER, POLICY, TOOLS, steps_taken

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

MANNERS = {
    "returns": {"by itself"},
    "records": {"LeaseLost", "AlreadyFinished", "CancelledError"},
    "waits": {"CancelledError"},
}
"""What work does that is continued after its task was taken away, and how that may end."""


@pytest.mark.parametrize("manner", MANNERS)
async def test_a_stopped_worker_cannot_change_what_another_has_finished_meanwhile(
    manner: str, url: str, engine: Engine, store: Store, children: Children, submit: Submit, outcome: Outcome
) -> None:
    sleeper, task = await stopped_at_work("resumable", manner, url, children, submit)
    lost = await sweep_until(is_free, engine, store, task)
    assert (lost.status, lost.losses) == (Status.WORKING, 1)
    finisher = await children.start("work", url)
    done = await outcome(task)
    assert (done.status, done.attempt) == (Status.COMPLETED, 2)
    assert [step["pid"] for step in result(done)] == [sleeper.pid, finisher.pid, finisher.pid]
    await assert_harmless(sleeper, manner, engine, outcome)
    assert await engine.get(task.id) == done


@pytest.mark.parametrize("manner", MANNERS)
async def test_a_stopped_worker_cannot_speak_for_the_one_that_has_its_task_now(
    manner: str, url: str, engine: Engine, store: Store, children: Children, submit: Submit, outcome: Outcome
) -> None:
    sleeper, task = await stopped_at_work("resumable", manner, url, children, submit, holds=2)
    await sweep_until(is_free, engine, store, task)
    successor = await children.start("work", url)
    await successor.says("holding")
    await assert_harmless(sleeper, manner, engine, outcome)
    held = await engine.get(task.id)
    assert (held.status, held.attempt, held.entries) == (Status.WORKING, 2, 1)
    await successor.kill()
    done = await outcome(task)
    assert (done.status, done.attempt, done.losses) == (Status.COMPLETED, 3, 2)
    assert [step["attempt"] for step in result(done)] == [1, 3, 3]


@pytest.mark.parametrize("manner", MANNERS)
async def test_a_stopped_worker_whose_task_nobody_took_starts_it_over_like_any_other(
    manner: str, url: str, engine: Engine, store: Store, children: Children, submit: Submit, outcome: Outcome
) -> None:
    sleeper, task = await stopped_at_work("resumable", manner, url, children, submit)
    await sweep_until(is_free, engine, store, task)
    await assert_harmless(sleeper, manner, engine, outcome)
    done = await outcome(task)
    assert (done.status, done.attempt) == (Status.COMPLETED, 2)
    assert [step["attempt"] for step in result(done)] == [1, 2, 2]


@pytest.mark.parametrize("manner", MANNERS)
async def test_a_task_that_cannot_be_resumed_stays_failed_when_its_stopped_worker_comes_back(
    manner: str, url: str, engine: Engine, store: Store, children: Children, submit: Submit, outcome: Outcome
) -> None:
    sleeper, task = await stopped_at_work("fragile", manner, url, children, submit)
    done = await sweep_until(is_free, engine, store, task)
    assert done.status is Status.FAILED
    assert done.failure
    assert "its lease ran out" in done.failure.message
    assert "not resumable" in done.failure.message
    await assert_harmless(sleeper, manner, engine, outcome)
    assert await engine.get(task.id) == done


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stopped_worker_is_stalled_before_it_is_lost_and_keeps_its_task_if_it_comes_back_in_time(
    kind: str, url: str, engine: Engine, store: Store, children: Children, submit: Submit, outcome: Outcome
) -> None:
    sleeper, task = await stopped_at_work(kind, "returns", url, children, submit)
    stalled = await sweep_until(is_stalled, engine, store, task)
    assert stalled.status is Status.WORKING
    assert (stalled.status_message or "").startswith("Stalled")
    sleeper.signal(signal.SIGCONT)
    done = await outcome(task)
    assert (done.status, done.attempt, done.losses) == (Status.COMPLETED, 1, 0)
    assert result(done) == "too late"


async def test_another_worker_takes_over_from_a_stopped_one_by_itself(
    url: str, log: Path, engine: Engine, children: Children, submit: Submit, outcome: Outcome
) -> None:
    sleeper, task = await stopped_at_work("resumable", "waits", url, children, submit)
    async with Worker(engine, TOOLS):
        done = await outcome(task)
        await assert_harmless(sleeper, "waits", engine, outcome)
    assert done.status is Status.COMPLETED
    assert steps_taken(log, task) == {0: 1, 1: 1, 2: 1}
    assert await engine.get(task.id) == done


@pytest.mark.parametrize(("count", "slots"), [(1, 64), (2, 1)], ids=["with slots to spare", "with all slots busy"])
async def test_a_worker_that_is_shut_down_hands_on_what_can_be_resumed_and_fails_the_rest(
    count: int, slots: int, url: str, log: Path, engine: Engine, children: Children, submit: Submit, outcome: Outcome
) -> None:
    resumable, fragile = [await submit(kind, holds=1) for kind in KINDS]
    workers = [await children.start("work", url, NEVER, slots) for _ in range(count)]
    for worker in workers * (2 // count):
        await worker.says("holding")
    for worker in workers:
        worker.signal(signal.SIGTERM)
    async with asyncio.timeout(PATIENCE / 3):  # its grace is a fifth of a second
        assert [await worker.ended() for worker in workers] == [0] * count
    released, failed = await engine.get(resumable.id), await outcome(fragile)
    assert (released.is_waiting, released.losses) == (True, 0)
    assert failed.failure
    assert "shut down" in failed.failure.message
    async with Worker(engine, TOOLS):
        done = await outcome(resumable)
    assert (done.status, done.attempt, done.losses) == (Status.COMPLETED, 2, 0)
    assert steps_taken(log, resumable) == {0: 1, 1: 1, 2: 1}
    assert steps_taken(log, fragile) == {0: 1}


async def stopped_at_work(
    kind: str, manner: str, url: str, children: Children, submit: Submit, holds: int = 0
) -> tuple[Child, Task]:
    sleeper = await children.start("stall", url, kind, manner)
    task = await submit(kind, holds=holds)
    await sleeper.says("stopping")
    await sleeper.stands_still()
    return sleeper, task


async def sweep_until(is_so: Callable[[Task], bool], engine: Engine, store: Store, task: Task) -> Task:
    """Sweep as somebody does for whom it is later each time, so that nobody waits until a lease has run out."""
    for leases in range(1, 10):
        later = utc_now() + leases * POLICY.lease
        await Engine(store, POLICY, clock=lambda: later).sweep()  # noqa: B023, as it is called within
        if is_so(task := await engine.get(task.id)):
            return task
    raise AssertionError(task)


def is_stalled(task: Task) -> bool:
    return task.lease is not None and task.lease.is_stalled


def is_free(task: Task) -> bool:
    return task.lease is None and task.version > 1


async def assert_harmless(sleeper: Child, manner: str, engine: Engine, outcome: Outcome) -> None:
    """Let the sleeper go on: the work that is no longer its own ends, and the process does the next task."""
    sleeper.signal(signal.SIGCONT)
    assert await sleeper.says("ended") in MANNERS[manner]
    ping = await outcome(await engine.submit("ping"))
    assert result(ping) == sleeper.pid
