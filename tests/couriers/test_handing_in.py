"""From a row to a worker: what is handed in gets there, also if nobody told Docket, or Docket forgot."""

from __future__ import annotations

import asyncio
import signal
from datetime import UTC, datetime, timedelta

import pytest
from docket import Docket

from coatcheck import Engine, InvalidArgument, Status, TaskContext, tool
from coatcheck.couriers.connection import FUNCTION
from coatcheck.couriers.schedule import with_time
from coatcheck.policy import Terms
from tests.couriers.children import PATIENCE
from tests.couriers.conftest import Node, Outcome, result
from tests.databases.redis import Redis

pytestmark = pytest.mark.anyio

on_every_shared_store = pytest.mark.parametrize("engine", ["sqlite", "redis", "postgres"], indirect=True)


async def double(ctx: TaskContext, number: int) -> int:
    return 2 * number


@on_every_shared_store
async def test_one_node_hands_in_and_another_runs(engine: Engine, node: Node, outcome: Outcome) -> None:
    server = await node(tool(double), slots=0)
    worker = await node(tool(double))
    done = await outcome(await server.submit("double", {"number": 21}))
    assert result(done) == 42
    assert server.name != worker.name


async def test_whoever_made_it_hears_of_it_before_it_starts(node: Node, outcome: Outcome) -> None:
    heard: list[str] = []

    async def tell(ctx: TaskContext) -> bool:
        return ctx.task.id in heard

    worker = await node(tool(tell))
    task = await worker.submit("tell", made=lambda task: heard.append(task.id))
    assert result(await outcome(task)) is True


async def test_many_tasks_run_each_once(node: Node, outcome: Outcome) -> None:
    runs: list[int] = []

    async def run(ctx: TaskContext, number: int) -> None:
        runs.append(number)

    server, _, _ = await node(tool(run), slots=0), await node(tool(run), slots=4), await node(tool(run), slots=4)
    tasks = [await server.submit("run", {"number": number}) for number in range(100)]
    for task in tasks:
        assert (await outcome(task)).attempt == 1
    assert sorted(runs) == list(range(100))


@on_every_shared_store
async def test_a_task_that_docket_was_never_told_of_is_found(engine: Engine, node: Node, outcome: Outcome) -> None:
    await node(tool(double))
    task = await engine.submit("double", {"number": 1}, terms=Terms())
    assert (await outcome(task)).status is Status.COMPLETED


async def test_a_task_handed_in_before_there_was_a_worker_waits_for_one(node: Node, outcome: Outcome) -> None:
    task = await (await node(tool(double), slots=0)).submit("double", {"number": 1})
    await node(tool(double))
    assert (await outcome(task)).status is Status.COMPLETED


async def test_what_docket_forgot_is_handed_in_again(docket: Docket, node: Node, outcome: Outcome) -> None:
    server = await node(tool(double), slots=0)
    task = await server.submit("double", {"number": 1})
    async with docket.redis() as redis, asyncio.timeout(PATIENCE):
        while not await redis.exists(docket.runs_key(task.id)):  # noqa: ASYNC110
            await asyncio.sleep(0)
        await redis.delete(docket.runs_key(task.id), docket.stream_key)
    await node(tool(double))
    assert (await outcome(task)).status is Status.COMPLETED


async def test_repeats_under_one_key_are_one_task(node: Node, outcome: Outcome) -> None:
    worker = await node(tool(double))
    first = await worker.submit("double", {"number": 1}, idempotency_key="k")
    again = await worker.submit("double", {"number": 1}, idempotency_key="k")
    assert again.id == first.id
    assert (await outcome(first)).attempt == 1
    assert (await worker.submit("double", {"number": 1}, idempotency_key="k")).status is Status.COMPLETED


@on_every_shared_store
async def test_a_parked_task_goes_on_once_it_is_answered(engine: Engine, node: Node, outcome: Outcome) -> None:
    async def ask(ctx: TaskContext) -> int:
        answer = await ctx.elicit("How many?", {"type": "object", "properties": {"n": {"type": "integer"}}})
        return answer["content"]["n"]

    worker = await node(tool(ask, resumable=True))
    task = await worker.submit("ask")
    task = await engine.settled(task, PATIENCE)
    while task.lease:
        task = await engine.newer(task, PATIENCE) or task
    assert task.status is Status.INPUT_REQUIRED
    (key,) = task.input_requests
    await engine.answer(task.id, None, {key: {"action": "accept", "content": {"n": 3}}})
    done = await outcome(task)
    assert (result(done), done.attempt) == (3, 2)


async def test_a_task_does_not_start_before_its_time(engine: Engine, node: Node, outcome: Outcome) -> None:
    async def tell(ctx: TaskContext) -> str:
        return datetime.now(UTC).isoformat()

    worker = await node(tool(tell))
    time = datetime.now(UTC) + timedelta(seconds=1.5)
    task = await worker.submit("tell", not_before=time, meta={"who": "me"})
    assert datetime.fromisoformat(result(await outcome(task))) >= time


async def test_docket_may_forget_the_time_of_a_task_but_the_row_does_not(
    docket: Docket, node: Node, outcome: Outcome
) -> None:
    async def tell(ctx: TaskContext) -> str:
        return datetime.now(UTC).isoformat()

    worker = await node(tool(tell))
    time = datetime.now(UTC) + timedelta(seconds=1.5)
    task = await worker.submit("tell", not_before=time)
    docket.register(double, [FUNCTION])
    await docket.replace(FUNCTION, datetime.now(UTC), task.id)(task.id)  # brings it at once
    assert datetime.fromisoformat(result(await outcome(task))) >= time


async def test_a_time_that_cannot_be_kept_is_refused(node: Node) -> None:
    worker = await node(tool(double), slots=0)
    with pytest.raises(InvalidArgument, match="time zone"):
        await worker.submit("double", not_before=datetime(2030, 1, 1))
    with pytest.raises(InvalidArgument, match="expired"):
        await worker.submit("double", not_before=datetime.now(UTC) + timedelta(days=2))


async def test_a_tool_nobody_has_is_refused(node: Node) -> None:
    worker = await node(tool(double), slots=0)
    with pytest.raises(InvalidArgument, match="there is: double"):
        await worker.submit("triple")


@pytest.mark.parametrize("url", ["memory://", "sqlite:///tasks.db", "nonsense"])
async def test_docket_needs_a_redis(node: Node, url: str) -> None:
    with pytest.raises(InvalidArgument, match="needs a Redis"):
        await node(tool(double), at=url)


@pytest.mark.parametrize("url", ["ann:sesame@cache.internal:6379/0", "ann:sesame@redis://cache.internal"])
async def test_a_password_in_what_is_no_address_is_not_shown(node: Node, url: str) -> None:
    with pytest.raises(InvalidArgument, match="needs a Redis") as refusal:
        await node(tool(double), at=url)
    assert "sesame" not in str(refusal.value)


@pytest.mark.slow
async def test_what_docket_does_not_know_is_found_behind_thousands_that_wait(
    engine: Engine, node: Node, outcome: Outcome
) -> None:
    later = with_time({}, engine.clock() + timedelta(minutes=30))
    await asyncio.gather(*(engine.submit("double", {"number": 1}, meta=later) for _ in range(3000)))
    task = await engine.submit("double", {"number": 21})
    await asyncio.gather(*(engine.submit("double", {"number": 1}, meta=later) for _ in range(3000)))
    await node(tool(double))
    assert result(await outcome(task)) == 42


@pytest.mark.slow
async def test_a_redis_that_is_away_keeps_nobody_from_handing_in(
    engine: Engine, node: Node, outcome: Outcome, redis: Redis
) -> None:
    redis.process.kill()
    server, _ = await node(tool(double), at=redis.url("a"), slots=0), await node(tool(double), at=redis.url("a"))
    tasks = [await server.submit("double", {"number": number}) for number in range(20)]
    assert {(await engine.get(task.id)).is_waiting for task in tasks} == {True}
    redis.process.start()
    assert [result(await outcome(task)) for task in tasks] == [2 * number for number in range(20)]


@pytest.mark.slow
@pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP], ids=["is gone", "does not answer"])
async def test_a_worker_stops_also_if_redis(fate: signal.Signals, node: Node, outcome: Outcome, redis: Redis) -> None:
    worker = await node(tool(double), at=redis.url("a"))
    assert result(await outcome(await worker.submit("double", {"number": 1}))) == 2
    redis.process.signal(fate)
    task = await worker.submit("double", {"number": 2})
    async with asyncio.timeout(PATIENCE):
        await worker.stop()
    assert not task.status.is_terminal


@pytest.mark.slow
async def test_a_redis_that_did_not_answer_for_a_while_is_no_harm(node: Node, outcome: Outcome, redis: Redis) -> None:
    worker = await node(tool(double), at=redis.url("a"))
    assert result(await outcome(await worker.submit("double", {"number": 1}))) == 2
    redis.process.signal(signal.SIGSTOP)
    tasks = [await worker.submit("double", {"number": number}) for number in range(5)]
    redis.process.signal(signal.SIGCONT)
    assert [result(await outcome(task)) for task in tasks] == [0, 2, 4, 6, 8]
