"""What Docket alone does wrong, as measured, number by number; and that none of it is seen of a task."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, cast

import pytest
from docket import Docket, Execution, ExecutionState, Worker
from redis.asyncio import Redis as Client
from redis.exceptions import MaxConnectionsError

from coatcheck import Engine, Status, TaskContext, tool
from tests.couriers.children import PATIENCE
from tests.couriers.conftest import Node, Outcome, result
from tests.databases.fixtures import the_redis
from tests.databases.redis import Redis

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@asynccontextmanager
async def docket_alone(name: str, address: str | None = None, **settings: Any) -> AsyncGenerator[Docket]:
    """A docket and a worker on it, without anything of ours, as their authors have them."""
    address = address or the_redis().address
    async with Docket(name=name, url=address) as docket, Worker(docket, **settings) as worker:
        running = asyncio.create_task(worker.run_forever())
        try:
            yield docket
        finally:
            while not running.done():  # it may be so busy with what fails that it misses being told to stop
                running.cancel()
                await asyncio.wait((running,), timeout=1)


class Stubborn:
    """Work that is told to stop, and comes to its end all the same."""

    def __init__(self) -> None:
        self.is_running, self.is_told, self.may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.has_ended = asyncio.Event()

    async def work(self) -> None:
        self.is_running.set()
        while not self.may_end.is_set():
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.is_told.set()
        self.has_ended.set()

    async def tool(self, ctx: TaskContext) -> str:
        await self.work()
        return "done"


def _client(address: str) -> Any:
    return Client.from_url(address)  # pyright: ignore[reportUnknownMemberType]


async def heard(event: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE):
        await event.wait()


# 1. Throughput is at most concurrency / minimum_check_interval


async def test_1_full_slots_are_filled_again_as_soon_as_they_are_free(url: str, node: Node, outcome: Outcome) -> None:
    count, slots = 60, 10
    ran: list[int] = []
    has_run = asyncio.Event()

    async def nothing(number: int) -> None:
        ran.append(number)
        if len(ran) == count:
            has_run.set()

    async def ours(ctx: TaskContext) -> None: ...

    server = await node(tool(ours), slots=0)
    tasks = [await server.submit("ours") for _ in range(count)]
    async with Docket(name="alone-1", url=the_redis().address) as docket:
        await docket.add_many([docket.call(nothing)(number) for number in range(count)])
    began = monotonic()
    async with docket_alone("alone-1", concurrency=slots) as docket:
        docket.register(nothing)
        await heard(has_run)
        theirs_took = monotonic() - began
    assert theirs_took >= (count / slots - 1) * 0.25, "Docket sleeps no more: this can go"
    began = monotonic()
    await node(tool(ours), slots=slots)
    for task in tasks:
        await outcome(task)
    assert monotonic() - began < theirs_took


# 2. redis-py's pool of 100 connections


async def test_2_however_many_tasks_are_wanted_at_once_each_finds_a_connection(
    node: Node, outcome: Outcome, caplog: pytest.LogCaptureFixture
) -> None:
    async def nothing(number: int) -> None: ...

    async def ours(ctx: TaskContext) -> None: ...

    def failures() -> int:
        errors = [record.exc_info[1] for record in caplog.records if record.exc_info]
        return sum(isinstance(error, MaxConnectionsError) for error in errors)

    async with Docket(name="alone-2", url=the_redis().address) as docket:
        await docket.add_many([docket.call(nothing)(number) for number in range(200)])
    with caplog.at_level(logging.WARNING, logger="docket"):
        async with docket_alone("alone-2", concurrency=200) as docket, asyncio.timeout(PATIENCE):
            docket.register(nothing)
            while not failures():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        caplog.clear()
        server = await node(tool(ours), slots=0)
        tasks = [await server.submit("ours") for _ in range(400)]
        await node(tool(ours), slots=10_000)
        assert {(await outcome(task)).attempt for task in tasks} == {1}
        assert failures() == 0


# 3. Terminal states are not terminal


async def test_3_what_is_cancelled_does_not_complete_later(engine: Engine, node: Node, outcome: Outcome) -> None:
    theirs, ours = Stubborn(), Stubborn()
    async with docket_alone("alone-3") as docket:
        execution = await docket.add(theirs.work)()
        await heard(theirs.is_running)
        await docket.cancel(execution.key)
        await heard(theirs.is_told)
        assert await _state(execution) is ExecutionState.CANCELLED
        theirs.may_end.set()
        await heard(theirs.has_ended)
        async with asyncio.timeout(PATIENCE):
            while (await _state(execution)) is not ExecutionState.COMPLETED:
                pass

    worker = await node(tool(ours.tool, name="stubborn"))
    task = await worker.submit("stubborn")
    await heard(ours.is_running)
    await worker.cancel(task.id)
    await heard(ours.is_told)
    cancelled = await outcome(task)
    ours.may_end.set()
    await heard(ours.has_ended)
    await worker.stop()
    assert cancelled.status is Status.CANCELLED
    assert await engine.get(task.id) == cancelled


async def _state(execution: Execution) -> ExecutionState:
    await execution.sync()
    return execution.state


# 4 and 6 are about processes: test_lost_workers.py
# 5. Arguments and results are pickles


async def _all_of(client: Any, prefix: str) -> dict[bytes, Any]:
    """Return whatever is in a docket."""
    found: dict[bytes, Any] = {}
    async for key in client.scan_iter(match=f"{prefix}*"):
        match await client.type(key):
            case b"hash":
                found[key] = await client.hgetall(key)
            case b"stream":
                found[key] = await client.xrange(key)
            case b"zset":
                found[key] = await client.zrange(key, 0, -1)
            case b"set":
                found[key] = await client.smembers(key)
            case _:
                found[key] = await client.get(key)
    return found


async def test_5_only_the_id_travels(url: str, docket: Docket, node: Node, outcome: Outcome) -> None:
    async def keep(ctx: TaskContext, secret: str) -> str:
        return secret

    server = await node(tool(keep), slots=0)
    task = await server.submit("keep", {"secret": "xyzzy"}, owner="someone", meta={"also": "xyzzy"})
    async with _client(the_redis().address) as client, asyncio.timeout(PATIENCE):
        while not await client.exists(docket.runs_key(task.id)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        kept = await _all_of(client, docket.prefix)
        record = cast("dict[bytes, bytes]", kept[docket.runs_key(task.id).encode()])
        ((_, message),) = kept[docket.stream_key.encode()]
        for carried in (record, message):
            assert (pickle.loads(carried[b"args"]), pickle.loads(carried[b"kwargs"])) == ((task.id,), {})
        assert not any(word in repr(kept) for word in ("xyzzy", "someone", "keep"))
        await node(tool(keep))
        assert result(await outcome(task)) == "xyzzy"
        while await client.exists(docket.runs_key(task.id)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        kept = await _all_of(client, docket.prefix)
        assert not any(word in repr(kept) for word in ("xyzzy", "someone", "keep", task.id))


# 7. Cancelling is a message that may be lost


async def test_7_a_lost_message_does_not_keep_a_task_from_being_cancelled(
    node: Node, outcome: Outcome, redis: Redis
) -> None:
    theirs, ours = Stubborn(), Stubborn()
    async with _client(redis.address) as client:
        async with docket_alone("alone", redis.address) as docket:
            execution = await docket.add(theirs.work)()
            await heard(theirs.is_running)
            async with _deaf(client):
                await docket.cancel(execution.key)
            async with asyncio.timeout(PATIENCE):
                while not await client.pubsub_numpat():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert not theirs.is_told.is_set()
            theirs.may_end.set()
            await heard(theirs.has_ended)
        worker = await node(tool(ours.tool, name="stubborn"), at=redis.url("ours"))
        task = await worker.submit("stubborn")
        await heard(ours.is_running)
        async with _deaf(client):
            await worker.cancel(task.id)
            await heard(ours.is_told)
        ours.may_end.set()
        assert (await outcome(task)).status is Status.CANCELLED


@asynccontextmanager
async def _deaf(client: Any) -> AsyncGenerator[None]:
    """Cut the connections by which workers hear that something is cancelled, and let them have no others."""
    await client.config_set("maxclients", 1)
    await client.client_kill_filter(_type="pubsub")
    yield
    await client.config_set("maxclients", 1000)


# 8. After any error of Redis, Docket waits for all that runs before it takes anything new


async def test_8_when_redis_has_been_away_new_tasks_start_beside_those_that_ran_on(
    node: Node, outcome: Outcome, redis: Redis
) -> None:
    long = Stubborn()

    async def double(ctx: TaskContext, number: int) -> int:
        return 2 * number

    worker = await node(tool(long.tool, name="long"), tool(double), at=redis.url("a"), slots=2)
    first = await worker.submit("long")
    await heard(long.is_running)
    redis.process.kill()
    second = await worker.submit("double", {"number": 1})
    redis.process.start()
    assert result(await outcome(second)) == 2
    assert not long.is_told.is_set()
    long.may_end.set()
    assert (await outcome(first)).attempt == 1


async def test_8_what_ran_on_still_takes_its_slot(node: Node, outcome: Outcome, redis: Redis) -> None:
    most = running = 0
    may_end = asyncio.Event()
    has_begun: asyncio.Queue[None] = asyncio.Queue()

    async def stay(ctx: TaskContext) -> int:
        nonlocal most, running
        running += 1
        most = max(most, running)
        has_begun.put_nowait(None)
        await may_end.wait()
        running -= 1
        return ctx.task.attempt

    worker = await node(tool(stay), at=redis.url("a"), slots=3)
    tasks = [await worker.submit("stay") for _ in range(2)]
    async with asyncio.timeout(PATIENCE):
        for _ in tasks:
            await has_begun.get()
        redis.process.kill()
        tasks += [await worker.submit("stay") for _ in range(5)]
        redis.process.start()
        await has_begun.get()
    may_end.set()
    assert [result(await outcome(task)) for task in tasks] == [1] * 7
    assert most == 3
