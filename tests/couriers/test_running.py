"""Who runs what Docket brings, how often and how many at once; and what cancelling and stopping do."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import pytest
from docket import Docket

from coatcheck import Engine, InvalidArgument, Status, TaskContext, tool
from coatcheck.couriers.connection import FUNCTION
from tests.couriers.children import PATIENCE
from tests.couriers.conftest import Node, Outcome, result

pytestmark = pytest.mark.anyio


class Stage:
    """A tool that is held until it is let go, and knows how often it was begun and how many ran at once."""

    def __init__(self) -> None:
        self.may_end, self.is_stopped = asyncio.Event(), asyncio.Event()
        self._begins: asyncio.Queue[None] = asyncio.Queue()
        self.begun = self.running = self.most = 0

    async def act(self, ctx: TaskContext) -> int:
        self.begun += 1
        self.running += 1
        self.most = max(self.most, self.running)
        self._begins.put_nowait(None)
        try:
            await self.may_end.wait()
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.is_stopped.set()
            raise
        finally:
            self.running -= 1
        return ctx.task.attempt

    async def begins(self, times: int = 1) -> None:
        """Wait until it has begun so many times more."""
        async with asyncio.timeout(PATIENCE):
            for _ in range(times):
                await self._begins.get()


async def deliver(docket: Docket, task_id: str) -> None:
    """Have Docket bring an id, whatever it thinks of it, and wait until it has been taken."""

    async def nothing(task_id: str) -> None: ...

    docket.register(nothing, [FUNCTION])
    await docket.replace(FUNCTION, datetime.now(UTC), task_id)(task_id)
    async with docket.redis() as redis, asyncio.timeout(PATIENCE):
        while await redis.exists(docket.runs_key(task_id)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("is_its_own", [True, False], ids=["to its own worker", "to another"])
async def test_an_id_that_is_brought_again_while_its_task_runs_does_not_run_twice(
    is_its_own: bool, docket: Docket, node: Node, outcome: Outcome
) -> None:
    stage = Stage()
    worker = await node(tool(stage.act, resumable=True))
    task = await worker.submit("act")
    await stage.begins()
    if not is_its_own:
        for _ in range(3):
            await node(tool(stage.act, resumable=True))
    for _ in range(5):
        await deliver(docket, task.id)
    stage.may_end.set()
    assert result(await outcome(task)) == 1
    await deliver(docket, task.id)
    assert stage.begun == 1


async def test_an_id_that_means_nothing_here_is_dropped(docket: Docket, node: Node) -> None:
    await node(tool(Stage().act))
    await deliver(docket, "no-such-task")


async def test_docket_cannot_cancel_what_the_row_says_is_working(docket: Docket, node: Node, outcome: Outcome) -> None:
    stage = Stage()
    worker = await node(tool(stage.act))
    task = await worker.submit("act")
    await stage.begins()
    await docket.cancel(task.id)
    await deliver(docket, task.id)
    assert not stage.is_stopped.is_set()
    stage.may_end.set()
    assert (await outcome(task)).status is Status.COMPLETED


@pytest.mark.parametrize("is_docket_told", [True, False], ids=["and docket is told", "and docket is not told"])
async def test_what_is_cancelled_stops(is_docket_told: bool, engine: Engine, node: Node, outcome: Outcome) -> None:
    stage = Stage()
    server, _ = await node(tool(stage.act), slots=0), await node(tool(stage.act))
    task = await server.submit("act")
    await stage.begins()
    await (server if is_docket_told else engine).cancel(task.id, reason="enough")
    async with asyncio.timeout(PATIENCE):
        await stage.is_stopped.wait()
    assert (await outcome(task)).status is Status.CANCELLED


@pytest.mark.parametrize("is_docket_told", [True, False], ids=["and docket is told", "and docket is not told"])
async def test_what_is_cancelled_before_it_starts_never_does(
    is_docket_told: bool, engine: Engine, node: Node, outcome: Outcome
) -> None:
    stage = Stage()
    server = await node(tool(stage.act), slots=0)
    task, other = await server.submit("act"), await server.submit("act")
    await (server if is_docket_told else engine).cancel(task.id)
    await node(tool(stage.act), slots=1)
    stage.may_end.set()
    await outcome(other)
    assert (stage.begun, (await outcome(task)).status) == (1, Status.CANCELLED)


async def test_a_worker_leaves_what_it_does_not_know_to_one_that_does_and_says_so(
    node: Node, outcome: Outcome, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage()
    stage.may_end.set()
    server = await node(tool(stage.act), slots=0)
    ignorant = await node()
    tasks = [await server.submit("act") for _ in range(3)]
    with caplog.at_level(logging.WARNING, logger="coatcheck"):
        async with asyncio.timeout(PATIENCE):
            while not caplog.messages:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await node(tool(stage.act))
        assert [result(await outcome(task)) for task in tasks] == [1, 1, 1]
    (said,) = caplog.messages
    assert "waits for a worker that knows act; this one knows no tool of that name" in said
    assert ignorant.name != server.name


async def test_what_docket_keeps_for_later_though_its_time_has_come_is_fetched(
    docket: Docket, node: Node, outcome: Outcome
) -> None:
    """As it does with what workers who do not know it have put back again and again."""
    stage = Stage()
    stage.may_end.set()
    server = await node(tool(stage.act), slots=0)
    task = await server.submit("act")
    async with docket.redis() as redis, asyncio.timeout(PATIENCE):
        while not await redis.exists(docket.runs_key(task.id)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    docket.register(stage.act, [FUNCTION])
    await docket.replace(FUNCTION, datetime.now(UTC) + timedelta(hours=1), task.id)(task.id)
    await node(tool(stage.act), slots=1)
    assert result(await outcome(task)) == 1


async def test_a_tool_can_be_added_and_removed_while_a_worker_runs(node: Node, outcome: Outcome) -> None:
    stage = Stage()
    stage.may_end.set()
    worker = await node()
    with pytest.raises(InvalidArgument):
        await worker.submit("act")
    worker.add(tool(stage.act))
    assert result(await outcome(await worker.submit("act"))) == 1
    with pytest.raises(InvalidArgument, match="already"):
        worker.add(tool(stage.act))
    worker.remove("act")
    with pytest.raises(InvalidArgument):
        await worker.submit("act")


@pytest.mark.parametrize("limits", ["per_tool=2", "per_owner=2", "per_tool=3&per_owner=2"])
async def test_no_more_run_at_once_than_the_limit_on_all_workers(
    limits: str, docket: Docket, url: str, engine: Engine, node: Node, outcome: Outcome
) -> None:
    stage = Stage()
    server = await node(tool(stage.act), slots=0)
    for _ in range(2):
        await node(tool(stage.act), at=f"{url}&{limits}")
    tasks = [await server.submit("act", owner="me") for _ in range(8)]
    await stage.begins(2)
    parked = await kept_back(docket, [task.id for task in tasks], count=6)
    assert stage.running == 2
    for task_id in parked[:3]:
        await engine.cancel(task_id, "me")
    stage.may_end.set()
    ended = [(await outcome(task)).status for task in tasks]
    assert (ended.count(Status.COMPLETED), ended.count(Status.CANCELLED)) == (5, 3)
    assert (stage.begun, stage.most) == (5, 2)


async def kept_back(docket: Docket, ids: list[str], count: int) -> list[str]:
    """Wait until Docket keeps so many back; return which."""
    async with docket.redis() as redis, asyncio.timeout(PATIENCE):
        while True:
            found = [key for key in ids if await redis.hget(docket.runs_key(key), "state") == b"scheduled"]
            if len(found) == count:
                return found


async def test_a_limit_for_an_owner_is_no_limit_for_others(url: str, node: Node, outcome: Outcome) -> None:
    mine, yours = Stage(), Stage()
    tools = tool(mine.act, name="mine"), tool(yours.act, name="yours")
    worker = await node(*tools, at=f"{url}&per_owner=1")
    held = [await worker.submit("mine", owner="me") for _ in range(3)]
    await mine.begins()
    yours.may_end.set()
    assert result(await outcome(await worker.submit("yours", owner="you"))) == 1
    mine.may_end.set()
    for task in held:
        await outcome(task)
    assert mine.most == 1


@pytest.mark.parametrize(
    ("wish", "reason"), [("per_tool=0", "at least 1"), ("per_owner=-1", "a number"), ("per_owner=two", "a number")]
)
async def test_a_limit_is_at_least_one(wish: str, reason: str, url: str, node: Node) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        await node(at=f"{url}&{wish}")


async def test_a_worker_that_stops_hands_on_what_can_be_resumed_and_fails_the_rest(
    node: Node, outcome: Outcome
) -> None:
    stage = Stage()
    tools = tool(stage.act, name="resumable", resumable=True), tool(stage.act, name="fragile")
    server, leaving = await node(*tools, slots=0), await node(*tools)
    resumable = await server.submit("resumable")
    fragile = await server.submit("fragile")
    await stage.begins(2)
    await leaving.stop()
    assert (await outcome(fragile)).status is Status.FAILED
    stage.may_end.set()
    await node(*tools)
    assert result(await outcome(resumable)) == 2


async def test_a_stopped_worker_still_takes_tasks_for_others(engine: Engine, node: Node, outcome: Outcome) -> None:
    stage = Stage()
    stage.may_end.set()
    stopped = await node(tool(stage.act))
    await stopped.stop()
    task = await stopped.submit("act")
    assert task.is_waiting
    await node(tool(stage.act))
    assert result(await outcome(task)) == 1
