"""Everything at once: tasks by the hundred while their processes die, and processes that want opposite things."""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path

import pytest

from coatcheck import Engine, Status, Task, Worker, decode
from tests.crash.children import PATIENCE, Children
from tests.crash.conftest import Outcome, result
from tests.crash.programs import TOOLS, steps_taken

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TASKS = 200
LIVES = 4


@pytest.mark.parametrize("seed", range(1))
async def test_of_hundreds_of_tasks_none_is_lost_while_workers_and_submitter_are_killed_again_and_again(
    seed: int, url: str, log: Path, engine: Engine, children: Children, outcome: Outcome
) -> None:
    chance = random.Random(seed)
    first_ends: dict[str, asyncio.Task[Task]] = {}

    async def submit_all(trap: str) -> int:
        submitter = await children.start("submit", url, log, TASKS, trap)
        async for line in submitter.lines():
            task = await engine.get(line.removeprefix("ack "))
            first_ends.setdefault(task.id, asyncio.create_task(engine.finished(task, PATIENCE)))
        return await submitter.ended()

    async def live_and_die(traps: list[str]) -> None:
        for trap in traps:
            worker = await children.start("work", url, trap, 8)
            assert await worker.ended() == -signal.SIGKILL, f"seed {seed}"

    # There is more to write, 5 times for each task, than all of them can before they die.
    fates = [[a_trap(chance, "any", 60) for _ in range(LIVES)] for _ in range(3)]
    workers = [asyncio.create_task(live_and_die(traps)) for traps in fates]
    assert await submit_all(a_trap(chance, "insert", TASKS)) == -signal.SIGKILL, f"seed {seed}"
    assert await submit_all("never:any:0") == 0, f"seed {seed}"
    await asyncio.gather(*workers)
    async with Worker(engine, TOOLS):
        ends = await asyncio.gather(*first_ends.values())
    tasks = await engine.list(limit=1000)
    assert {task.id for task in tasks} == first_ends.keys(), f"seed {seed}"
    assert len(tasks) == TASKS, f"seed {seed}"
    for end in ends:
        assert await outcome(end) == end, f"seed {seed}"
        await assert_honest(engine, end, log)


@pytest.mark.parametrize("seed", range(2))
async def test_of_cancelling_and_completing_at_once_one_wins_and_the_outcome_never_changes(
    seed: int, url: str, engine: Engine, children: Children
) -> None:
    chance = random.Random(seed)
    racers = {verb: await children.start("finish", url, verb) for verb in ("cancel", "complete")}
    for racer in racers.values():
        await racer.says("ready")
    histories: list[list[Task]] = []
    for _ in range(100):
        task = await engine.submit("contested", claimed_by="nobody")
        watch = asyncio.create_task(history(engine, task))
        for verb in chance.sample(list(racers), 2):
            racers[verb].tell(task.id)
        said = {verb: await anext(racer.lines()) for verb, racer in racers.items()}
        histories.append(await watch)
        assert sorted(said.values()) == ["lost", "won"], f"seed {seed}"
        status = Status.CANCELLED if said["cancel"] == "won" else Status.COMPLETED
        assert histories[-1][-1].status is status, f"seed {seed}"
    for seen in histories:
        assert [task.status.is_terminal for task in seen] == [False] * (len(seen) - 1) + [True]
        assert [task.version for task in seen] == sorted({task.version for task in seen})
        assert await engine.get(seen[-1].id) == seen[-1], f"seed {seed}"


def a_trap(chance: random.Random, kind: str, longest: int) -> str:
    return f"{chance.choice(('before', 'during', 'during', 'after'))}:{kind}:{chance.randint(1, longest)}"


async def history(engine: Engine, task: Task) -> list[Task]:
    """Return the task as it was seen each time it had changed, up to its end."""
    seen = [task]
    while not seen[-1].status.is_terminal:
        seen.append(await engine.wait(seen[-1], PATIENCE))
    return seen


async def assert_honest(engine: Engine, end: Task, log: Path) -> None:
    taken, journal = steps_taken(log, end), await engine.journal(end.id)
    assert len({entry.key for entry in journal}) == len(journal) == end.entries
    if end.status is Status.COMPLETED:
        assert result(end) == [decode(entry.value) for entry in journal]
        assert taken.keys() == {0, 1, 2}
    else:
        assert not end.resumable
        assert end.failure
        assert "not resumable" in end.failure.message
    assert max(taken.values(), default=0) <= (1 + end.losses if end.resumable else 1)
