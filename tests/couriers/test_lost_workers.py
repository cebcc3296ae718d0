"""Processes that are killed, stopped or blocked, with Docket alone and with us; and the Redis of Docket killed."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from docket import Docket

from coatcheck import Engine, Status, Task
from coatcheck.couriers.worker import DocketWorker
from tests.couriers.children import PATIENCE, Children
from tests.couriers.conftest import Node, Outcome, result
from tests.couriers.programs import LEASE, TOOLS, noted
from tests.databases.fixtures import the_redis
from tests.databases.redis import Redis

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where tools write down what they really did."""
    return tmp_path / "log.txt"


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/tasks.db"


@pytest.fixture
async def server(node: Node) -> DocketWorker:
    return await node(*TOOLS, slots=0)


@pytest.mark.parametrize("kind", ["resumable", "fragile"])
async def test_what_a_killed_worker_ran_is_resumed_by_another_or_fails(
    kind: str, store: str, url: str, log: Path, server: DocketWorker, children: Children, outcome: Outcome
) -> None:
    victim = await children.start("work", store, url)
    task = await server.submit(kind, {"log": str(log), "holds": 1})
    await victim.says("holding")
    await victim.kill()
    if kind == "resumable":
        await children.start("work", store, url)
    done = await outcome(task)
    if kind == "resumable":
        assert (done.status, result(done), done.losses) == (Status.COMPLETED, 2, 1)
        assert noted(log) == [f"{task.id} 1", f"{task.id} 2"]
    else:
        assert done.status is Status.FAILED
        assert noted(log) == [f"{task.id} 1"]


async def test_what_a_killed_server_could_not_hand_in_runs(
    store: str, url: str, log: Path, engine: Engine, children: Children, server: DocketWorker, outcome: Outcome
) -> None:
    dying = await children.start("submit_and_die", store, log, 5)
    tasks = [await engine.get(await dying.says("ack")) for _ in range(5)]
    assert await dying.ended() == -signal.SIGKILL
    await children.start("work", store, url)
    assert [result(await outcome(task)) for task in tasks] == list(range(5))
    assert sorted(noted(log)) == [str(number) for number in range(5)]


async def test_a_worker_that_is_asked_to_go_hands_on_what_it_ran(
    store: str, url: str, log: Path, server: DocketWorker, children: Children, outcome: Outcome
) -> None:
    leaving = await children.start("work", store, url)
    task = await server.submit("resumable", {"log": str(log), "holds": 1})
    await leaving.says("holding")
    await children.start("work", store, url)
    leaving.signal(signal.SIGTERM)
    assert await leaving.ended() == 0
    done = await outcome(task)
    assert (result(done), done.losses) == (2, 0)


# 4. No fencing


async def test_4_docket_alone_lets_a_stopped_worker_overwrite_the_result_of_its_successor(
    url: str, log: Path, children: Children
) -> None:
    name = url.rpartition("=")[2]
    async with Docket(name=name, url=the_redis().address) as docket, asyncio.timeout(PATIENCE):

        async def stand_still(number: int) -> str: ...

        first = await children.start("work_for_docket_alone", the_redis().address, name, log)
        execution = await docket.add(stand_still)(1)
        await first.says("running")
        await children.start("work_for_docket_alone", the_redis().address, name, log)
        assert await execution.get_result() == "the second"
        first.signal(signal.SIGCONT)
        while await execution.get_result() != "the first":  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_4_a_stopped_worker_changes_nothing_when_it_comes_back(
    store: str, url: str, log: Path, engine: Engine, server: DocketWorker, children: Children, outcome: Outcome
) -> None:
    sleeper = await children.start("work", store, url)
    task = await server.submit("stand_still", {"log": str(log)})
    await sleeper.says("stopping")
    await children.start("work", store, url)
    done = await outcome(task)
    assert (done.status, result(done)) == (Status.COMPLETED, "attempt 2")
    sleeper.signal(signal.SIGCONT)
    sleeper.signal(signal.SIGTERM)
    assert await sleeper.ended() == 0
    assert await engine.get(task.id) == done
    assert noted(log) == [f"{task.id} 1", f"{task.id} 2"]


# 6. Docket renews its leases on the event loop


async def test_6_docket_alone_runs_twice_what_blocks_its_loop(url: str, log: Path, children: Children) -> None:
    name = url.rpartition("=")[2]

    async def block(seconds: float) -> None: ...

    async with Docket(name=name, url=the_redis().address) as docket:
        first = await children.start("work_for_docket_alone", the_redis().address, name, log)
        await docket.add(block)(30.0)
        await first.says("running")
        second = await children.start("work_for_docket_alone", the_redis().address, name, log)
        await second.says("running")
    assert len(noted(log)) == 2


@pytest.mark.parametrize(("name", "status"), [("block", Status.COMPLETED), ("block_loop", Status.FAILED)])
async def test_6_what_blocks_is_run_once_and_harms_nobody_in_a_thread(
    name: str,
    status: Status,
    store: str,
    url: str,
    log: Path,
    server: DocketWorker,
    children: Children,
    outcome: Outcome,
) -> None:
    blocked = await children.start("work", store, url)
    task = await server.submit(name, {"log": str(log), "seconds": 2.5 * LEASE})
    await blocked.says("blocking")
    other = await children.start("work", store, url)
    await other.says("ready")
    assert (await outcome(task)).status is status
    blocked.signal(signal.SIGTERM)
    assert await blocked.ended() == 0
    assert (await outcome(task)).status is status
    assert noted(log) == ["blocks"]


# All of it at once


async def test_every_task_ends_once_whatever_is_killed(
    store: str, log: Path, node: Node, engine: Engine, redis: Redis, children: Children, outcome: Outcome
) -> None:
    url = redis.url("a")
    server = await node(*TOOLS, at=url, slots=0)
    workers = [await children.start("work", store, url) for _ in range(2)]
    tasks: list[Task] = []

    async def submit(count: int) -> None:
        tasks.extend([await server.submit("count", {"log": str(log), "number": number}) for number in range(count)])

    await submit(100)
    await workers[0].says("ready")
    await workers[0].kill()
    await submit(100)
    redis.process.kill()
    await submit(100)
    redis.process.start()
    workers.append(await children.start("work", store, url))
    await submit(100)
    for task in tasks:
        done = await outcome(task)
        assert done.status is Status.COMPLETED
        assert await engine.get(task.id) == done
