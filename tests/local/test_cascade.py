"""Cancelling a task cancels what its work has made, and what that has made, however and whenever it is done."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context

from coatcheck import AlreadyFinished, Engine, Status, Task
from coatcheck.server import LocalTask, TaskServer
from tests.conftest import STORES
from tests.databases.fixtures import new_url
from tests.local.stage import PATIENCE, TASK, until
from tests.requirements.marks import requirement
from tests.server.wire import in_memory
from tests.v2025.wire import VERSION, served

pytestmark = pytest.mark.anyio

MESSAGE = "The task that made it was cancelled"


def build(url: str, **options: Any) -> TaskServer:
    """Return a server whose tool makes children of its own, `depth` levels of `width` each, and waits for them."""
    server = TaskServer("test", store=url, **options)

    @server.tool(task=True)
    async def tree(depth: int, width: int, ctx: Context) -> None:
        below: dict[str, Any] = {"depth": depth - 1, "width": width}
        made = [await server.call_tool("tree", below, ctx, task_meta=TASK) for _ in range(width if depth else 0)]
        await asyncio.gather(*(task.result() for task in made))
        await asyncio.Event().wait()

    @server.tool(task=True)
    async def quick() -> str:
        return "quick"

    return server


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_url(request.param, tmp_path)


async def family(server: TaskServer, count: int) -> list[Task]:
    """Return all tasks there are, oldest first, once there are so many and all of them run."""
    engine = server.tasks.running.engine
    async with asyncio.timeout(PATIENCE):
        while len(tasks := await engine.list_all()) < count or not all(task.attempt for task in tasks):
            await asyncio.wait([asyncio.create_task(engine.wait(task, 0.05)) for task in tasks])
    return list(reversed(tasks))


async def by_handle(server: TaskServer, task: LocalTask[Any]) -> None:
    await task.cancel()


async def over_2026(server: TaskServer, task: LocalTask[Any]) -> None:
    async with in_memory(server) as caller:
        await caller.cancel(task.id)


async def over_2025(server: TaskServer, task: LocalTask[Any]) -> None:
    async with served(server) as place:
        caller = await place.memory(VERSION)
        assert (await caller.ask("tasks/cancel", taskId=task.id))["status"] == "cancelled"


async def by_the_engine(server: TaskServer, task: LocalTask[Any]) -> None:
    await server.tasks.running.engine.cancel(task.id)


Way = Callable[[TaskServer, LocalTask[Any]], Awaitable[None]]


@requirement("X-29")
@pytest.mark.parametrize("way", [by_handle, over_2026, over_2025, by_the_engine])
async def test_cancelling_goes_down_three_levels(url: str, way: Way) -> None:
    server = build(url)
    async with server.started():
        task = await server.call_tool("tree", {"depth": 2, "width": 2}, task_meta=TASK)
        await family(server, 7)
        await way(server, task)
        ended = await server.tasks.running.engine.list_all()
        assert [each.status for each in ended] == [Status.CANCELLED] * 7
        assert [each.status_message for each in ended[:-1]] == [MESSAGE] * 6


async def test_more_children_than_a_page_are_cancelled(url: str) -> None:
    server = build(url, concurrency=1)
    async with server.started():
        task = await server.call_tool("tree", {"depth": 1, "width": 230}, task_meta=TASK)
        engine = server.tasks.running.engine
        async with asyncio.timeout(PATIENCE):
            while len(await engine.list_all()) < 231:
                await task.changed(0.05)
        await task.cancel()
        assert {each.status for each in await engine.list_all()} == {Status.CANCELLED}


async def test_children_that_have_ended_stay_as_they_are(url: str) -> None:
    server = build(url)

    @server.tool(task=True)
    async def parent(ctx: Context) -> None:
        await (await server.call_tool("quick", {}, ctx, task_meta=TASK))
        await server.call_tool("tree", {"depth": 0, "width": 0}, ctx, task_meta=TASK)
        await ctx.report_progress(7, 7, "ready")
        await asyncio.Event().wait()

    async with server.started():
        task = await server.call_tool("parent", task_meta=TASK)
        await until(task, lambda now: now.status_message == "ready")
        await task.cancel()
        children = (await server.list_tasks(task.latest.as_owner)).tasks
        assert {child.latest.call.tool: child.latest.status for child in children} == {
            "quick": Status.COMPLETED,
            "tree": Status.CANCELLED,
        }


async def test_a_child_is_cancelled_without_its_parent(url: str) -> None:
    server = build(url)
    async with server.started():
        task = await server.call_tool("tree", {"depth": 2, "width": 1}, task_meta=TASK)
        parent, child, grandchild = await family(server, 3)
        await (await server.task(child.id, child.owner)).cancel()
        engine = server.tasks.running.engine
        assert (await engine.get(grandchild.id, grandchild.owner)).status is Status.CANCELLED
        # Waiting for a child that was cancelled is an error, which is the parent's to deal with.
        assert (await task.result(PATIENCE)).is_error
        assert (await engine.get(parent.id)).status is Status.COMPLETED


async def raced(server: TaskServer, seed: int) -> None:
    """Cancel a task at some moment while it makes children, and see that none of them goes on."""
    chance, engine = random.Random(seed), server.tasks.running.engine
    task = await server.call_tool("tree", {"depth": 2, "width": 3}, task_meta=TASK)
    for _ in range(chance.randrange(0, 120)):
        await asyncio.sleep(0)
    if chance.random() < 0.3:
        await task.wait(chance.uniform(0, 0.004))
    await task.cancel()
    await settled(engine)
    left = [each for each in await engine.list_all() if not each.status.is_terminal]
    assert not left, f"seed {seed}: {len(left)} go on"


async def settled(engine: Engine) -> None:
    """Return once everything there is has ended, or nothing has for a while."""
    while under_way := [task for task in await engine.list_all() if not task.status.is_terminal]:
        changed = [asyncio.create_task(engine.finished(task, 0.5)) for task in under_way]
        await asyncio.wait(changed)
        if not any(each.result().status.is_terminal for each in changed):
            return


@requirement("X-29")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("first", range(0, 60, 20))
async def test_a_child_that_is_made_while_its_parent_is_cancelled_is_cancelled_too(
    kind: str, first: int, tmp_path: Path
) -> None:
    for seed in range(first, first + 20):
        server = build(new_url(kind, tmp_path) if kind == "memory" else f"sqlite:///{tmp_path}/{seed}.db")
        async with server.started():
            await raced(server, seed)


async def test_a_parent_that_was_cancelled_can_make_no_more_children(url: str) -> None:
    server = build(url)
    refused: list[Exception] = []
    go_on, done = asyncio.Event(), asyncio.Event()

    @server.tool(task=True)
    async def stubborn(ctx: Context) -> None:
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            try:
                await server.call_tool("quick", {}, ctx, task_meta=TASK)
            except AlreadyFinished as error:
                refused.append(error)
            done.set()
            raise

    async with server.started():
        task = await server.call_tool("stubborn", task_meta=TASK)
        await until(task, lambda now: now.attempt > 0)
        await task.cancel()
        async with asyncio.timeout(PATIENCE):
            await done.wait()
        assert [str(error) for error in refused] == [f"Task {task.id} is already cancelled"]
        engine = server.tasks.running.engine
        assert {each.status for each in await engine.list(task.latest.as_owner)} <= {Status.CANCELLED}
