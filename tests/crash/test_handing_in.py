"""What was handed in is kept, whoever dies; and a new store may be opened by many, or by one that dies over it."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from pathlib import Path

import pytest

from coatcheck import Engine, Status, Worker, open_engine, open_store
from tests.crash.children import Children
from tests.crash.conftest import Outcome
from tests.crash.programs import KINDS, POLICY, TOOLS, steps_taken
from tests.databases.fixtures import new_url

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_task_outlives_the_submitter_that_was_killed_right_after_handing_it_in(
    kind: str, url: str, log: Path, engine: Engine, children: Children, outcome: Outcome
) -> None:
    submitter = await children.start("submit_and_die", url, log, kind, "waiting")
    task = await engine.get(await submitter.says("ack"))
    assert await submitter.ended() == -signal.SIGKILL
    assert task.is_waiting
    async with Worker(engine, TOOLS):
        done = await outcome(task)
    assert (done.status, done.attempt) == (Status.COMPLETED, 1)
    assert steps_taken(log, task) == {0: 1, 1: 1, 2: 1}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_task_started_by_the_submitter_itself_does_not_vanish_with_it(
    kind: str, url: str, log: Path, engine: Engine, children: Children, outcome: Outcome
) -> None:
    submitter = await children.start("submit_and_die", url, log, kind, "held")
    task = await engine.get(await submitter.says("ack"))
    assert await submitter.ended() == -signal.SIGKILL
    async with Worker(engine, TOOLS):
        done = await outcome(task)
    if done.resumable:
        assert (done.status, done.attempt) == (Status.COMPLETED, 2)
    else:
        assert done.failure
        assert "not resumable" in done.failure.message
        assert steps_taken(log, task)[0] <= 1


@pytest.mark.parametrize("seed", range(3))
async def test_a_submitter_killed_in_the_middle_has_lost_nothing_acknowledged_and_repeats_nothing_when_started_again(
    seed: int, url: str, log: Path, engine: Engine, children: Children
) -> None:
    chance = random.Random(seed)
    trap = f"{chance.choice(('before', 'during', 'during', 'after'))}:insert:{chance.randint(1, 80)}"
    submitter = await children.start("submit", url, log, 80, trap)
    acknowledged = {line.removeprefix("ack ") async for line in submitter.lines()}
    assert await submitter.ended() == -signal.SIGKILL, trap
    kept = {task.id for task in await engine.list(limit=1000)}
    assert acknowledged <= kept, trap
    again = await children.start("submit", url, log, 80)
    acknowledged = {line.removeprefix("ack ") async for line in again.lines()}
    assert await again.ended() == 0
    tasks = await engine.list(limit=1000)
    assert len(tasks) == 80, trap
    assert kept <= {task.id for task in tasks} == acknowledged, trap
    assert {task.idempotency_key for task in tasks} == set(map(str, range(80))), trap


async def test_a_process_may_open_a_store_twice_and_close_it_once_while_others_use_it(
    url: str, log: Path, engine: Engine, children: Children
) -> None:
    first = await engine.submit("fragile")
    async with open_store(url):
        pass
    other = await children.start("submit", url, log, 1)
    acknowledged = await other.says("ack")
    assert await other.ended() == 0
    last = await engine.submit("fragile")
    assert {task.id for task in await engine.list()} == {first.id, acknowledged, last.id}


@pytest.mark.parametrize(
    ("kind_of_store", "count", "apart"), [("sqlite", 75, 0.02), ("redis", 20, 0.05), ("postgres", 10, 0.2)]
)
async def test_many_processes_may_open_a_new_store_at_the_same_moment(
    kind_of_store: str, count: int, apart: float, tmp_path: Path, children: Children
) -> None:
    first_at = time.time() + 1  # an opener that needs longer to get going meets stores that are there already
    url = new_url(kind_of_store, tmp_path)
    openers = [await children.start("open_new", url, count, first_at, apart) for _ in range(2)]
    said = [[line async for line in opener.lines()] for opener in openers]
    assert said == [["opened"]] * 2


@pytest.mark.parametrize(
    ("kind_of_store", "latest"), [("sqlite", 0.02), ("redis", 0.02), ("postgres", 0.2)], ids=lambda value: f"{value}"
)
@pytest.mark.parametrize("seed", range(4))
async def test_a_process_killed_while_it_makes_the_store_leaves_one_that_the_next_can_use(
    seed: int, latest: float, url: str, log: Path, children: Children
) -> None:
    victim = await children.start("open_and_die", url, random.Random(seed).uniform(0, latest))
    assert await victim.ended() == -signal.SIGKILL
    async with open_engine(url, policy=POLICY) as engine, Worker(engine, TOOLS) as worker:
        tasks = [await worker.submit(kind, {"log": str(log)}) for kind in KINDS]
        ends = await asyncio.gather(*(engine.finished(task, 60) for task in tasks))
    assert [end.status for end in ends] == [Status.COMPLETED] * 2
