"""How far a parent is, as far as its children know."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from mcp.server.mcpserver import Context

from coatcheck import Policy, Task
from coatcheck.server import LocalTask, TaskServer
from tests.local.stage import TASK, until
from tests.requirements.marks import requirement
from tests.server.wire import PROGRESS, in_memory

pytestmark = pytest.mark.anyio


class Steps:
    """Children that go on when they are told to."""

    def __init__(self, count: int) -> None:
        self._gates = [asyncio.Event() for _ in range(count)]

    async def take(self, number: int) -> None:
        await self._gates[number].wait()
        self._gates[number].clear()

    def let(self, number: int) -> None:
        self._gates[number].set()


@pytest.fixture
def server() -> TaskServer:
    return TaskServer("test", store="memory://", policy=Policy(note_interval=timedelta()))


@pytest.fixture
def steps(server: TaskServer) -> Steps:
    steps = Steps(3)

    @server.tool(task=True)
    async def child(number: int, ctx: Context) -> None:
        await steps.take(number)
        await ctx.report_progress(1, 4, "a quarter")
        await steps.take(number)

    @server.tool(task=True)
    async def parent(ctx: Context, speaks: bool = False) -> None:
        tasks = [await server.call_tool("child", {"number": n}, ctx, task_meta=TASK) for n in range(2)]
        if speaks:
            await ctx.report_progress(10, 100, "as I say")
        await asyncio.gather(*(task.result() for task in tasks))
        await steps.take(2)

    return steps


def told(task: Task) -> tuple[float, float | None, str | None] | None:
    return task.progress and (task.progress.done, task.progress.total, task.status_message)


async def hears(task: LocalTask[Any], done: float, total: float, message: str | None) -> None:
    await until(task, lambda now: told(now) == (done, total, message))


@requirement("X-29")
async def test_a_parent_is_as_far_as_its_children_together(server: TaskServer, steps: Steps) -> None:
    async with server.started():
        task = await server.call_tool("parent", task_meta=TASK)
        await hears(task, 0, 2, None)
        steps.let(0)
        await hears(task, 0.25, 2, "child: a quarter")
        steps.let(1)
        await hears(task, 0.5, 2, "child: a quarter")
        steps.let(1)
        await hears(task, 1.25, 2, "child: a quarter")
        steps.let(0)
        await hears(task, 2, 2, "child: a quarter")
        steps.let(2)
        await task


async def test_what_a_parent_says_of_itself_comes_first(server: TaskServer, steps: Steps) -> None:
    async with server.started():
        task = await server.call_tool("parent", {"speaks": True}, task_meta=TASK)
        await hears(task, 10, 100, "as I say")
        for _ in range(2):
            for number in range(2):
                steps.let(number)
        children = (await server.list_tasks(task.latest.as_owner)).tasks
        for child in children:
            for number in range(2):
                steps.let(number)
            await child.wait(0.05)
        assert told(await task.fetch()) == (10, 100, "as I say")
        await task.cancel()


async def test_it_never_runs_backwards(server: TaskServer) -> None:
    @server.tool(task=True)
    async def child(to: int, ctx: Context) -> None:
        for done in range(to):
            await ctx.report_progress(done, to)

    @server.tool(task=True)
    async def parent(ctx: Context) -> None:
        for number in range(1, 5):  # each makes the total more
            await (await server.call_tool("child", {"to": number}, ctx, task_meta=TASK))

    async with server.started():
        task = await server.call_tool("parent", task_meta=TASK)
        seen = [0.0]
        while not task.latest.status.is_terminal:
            now = await task.changed()
            seen.append(now.progress.done if now.progress else 0.0)
        assert seen == sorted(seen)
        assert told(task.latest) == (4.0, 4.0, None)


async def test_children_that_do_not_end_well_have_ended(server: TaskServer) -> None:
    @server.tool(task=True)
    async def fail() -> None:
        raise RuntimeError

    @server.tool(task=True)
    async def parent(ctx: Context) -> None:
        tasks = [await server.call_tool("fail", {}, ctx, task_meta=TASK) for _ in range(2)]
        await tasks[0].result()
        await tasks[1].wait()

    async with server.started():
        task = await server.call_tool("parent", task_meta=TASK)
        await task
        assert told(await task.fetch()) == (2.0, 2.0, None)


async def test_a_child_that_is_not_waited_for_counts_as_not_begun(server: TaskServer) -> None:
    @server.tool(task=True)
    async def child() -> None: ...

    @server.tool(task=True)
    async def parent(ctx: Context) -> None:
        tasks = [await server.call_tool("child", {}, ctx, task_meta=TASK) for _ in range(2)]
        await tasks[0]

    async with server.started():
        task = await server.call_tool("parent", task_meta=TASK)
        await task
        assert told(await task.fetch()) == (1.0, 2.0, None)


async def test_the_parents_caller_is_told_over_the_wire(server: TaskServer, steps: Steps) -> None:
    async with in_memory(server) as caller:
        task_id = await caller.hand_in("parent")
        task = await server.task(task_id)
        steps.let(1)
        await hears(task, 0.25, 2, "child: a quarter")
        seen = await caller.get(task_id)
        assert seen["_meta"][PROGRESS] == {"progress": 0.25, "total": 2}
        assert seen["statusMessage"].startswith("child: a quarter")
