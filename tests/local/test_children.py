"""Children: tasks that the work of another task makes. Whose they are, how long they live, how many there may be."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.mcpserver import Context

from coatcheck import Policy, QuotaExceeded, Status, TaskNotFound
from coatcheck.errors import Forbidden
from coatcheck.server import LocalTask, TaskContext, TaskMeta, TaskServer, role
from tests.access.people import callers, guarded
from tests.local.stage import PATIENCE, TASK, text_of, until
from tests.requirements.marks import requirement
from tests.v2025.wire import NEW, NOT_FOUND, VERSION, WITH_TASKS, served
from tests.v2025.wire import text_of as wire_text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def gate() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture(autouse=True)
def tools(server: TaskServer, gate: asyncio.Event) -> None:
    add_tools(server, gate)


def add_tools(server: TaskServer, gate: asyncio.Event) -> None:
    @server.tool(task=True)
    async def child(n: int = 0) -> int:
        await gate.wait()
        return n

    @server.tool(task=True)
    async def parent(ctx: Context, count: int = 1) -> list[int]:
        tasks = [await server.call_tool("child", {"n": n}, ctx, task_meta=TaskMeta(ttl=60)) for n in range(count)]
        return [int(text_of(await task)) for task in tasks]

    @server.tool(task=True)
    async def parent_with_ours(ctx: TaskContext) -> str:
        return text_of(await (await server.call_tool("child", {"n": 7}, ctx, task_meta=TASK)))


async def children_of(server: TaskServer, parent: LocalTask[Any], count: int) -> list[LocalTask[Any]]:
    """Return the children of a task, oldest first, once there are so many."""
    async with asyncio.timeout(PATIENCE):
        while len(found := (await server.list_tasks(parent.latest.as_owner)).tasks) < count:
            await parent.changed(0.01)
    return list(reversed(found))


@requirement("E-020", "X-29")
async def test_a_tool_may_start_a_child_with_a_ttl_of_its_own(server: TaskServer, gate: asyncio.Event) -> None:
    async with server.started():
        task = await server.call_tool("parent", task_meta=TaskMeta(ttl=600))
        (child,) = await children_of(server, task, 1)
        assert child.latest.expires_at
        assert child.latest.expires_at - child.latest.created_at == timedelta(seconds=60)
        assert (child.latest.owner, child.latest.is_child) == (task.latest.as_owner, True)
        assert not task.latest.is_child
        gate.set()
        assert (await task).structured_content == {"result": [0]}


async def test_both_contexts_make_children(server: TaskServer, gate: asyncio.Event) -> None:
    gate.set()
    async with server.started():
        task = await server.call_tool("parent_with_ours", task_meta=TASK)
        assert text_of(await task) == "7"
        assert len(await children_of(server, task, 1)) == 1


@requirement("M-007")
async def test_without_a_context_a_call_in_a_task_is_nobodys(server: TaskServer) -> None:
    @server.tool(task=True)
    async def apart() -> str:
        return (await server.call_tool("child", task_meta=TASK)).id

    async with server.started():
        made = await server.task(text_of(await (await server.call_tool("apart", task_meta=TASK))))
        assert made.latest.owner is None
        await made.cancel()


async def test_a_child_may_be_given_to_somebody_else(server: TaskServer, gate: asyncio.Event) -> None:
    @server.tool(task=True)
    async def apart(ctx: Context) -> str:
        return (await server.call_tool("child", {}, ctx, task_meta=TaskMeta(owner="ann"))).id

    async with server.started():
        task_id = text_of(await (await server.call_tool("apart", task_meta=TASK)))
        made = await server.task(task_id, "ann")
        assert not made.latest.is_child
        gate.set()
        await made


async def test_a_plain_call_within_a_task_runs_in_it(server: TaskServer, gate: asyncio.Event) -> None:
    @server.tool(task=True)
    async def nested(ctx: Context) -> str:
        result: Any = await server.call_tool("child", {"n": 3}, ctx)
        return text_of(result)

    gate.set()
    async with server.started():
        task = await server.call_tool("nested", task_meta=TASK)
        assert text_of(await task) == "3"
        assert (await server.list_tasks(task.latest.as_owner)).tasks == []


@requirement("E-037")
async def test_the_caller_of_a_parent_does_not_see_its_children(gate: asyncio.Event) -> None:
    server = guarded()
    add_tools(server, gate)
    async with served(server) as place:
        new = await place.http(NEW, WITH_TASKS, token="ann", stands=False)
        old = await place.http(VERSION, {}, token="ann", stands=False)
        plain = await place.http("2025-06-18", {}, token="ann", stands=False)
        parent_id = await old.hand_in("parent")
        task = await server.task(parent_id, (await place.engine.list_all())[-1].owner)
        (child,) = await children_of(server, task, 1)
        unknown = child.id[:-3] + "xyz"
        for caller in (new, old):
            for method in ("tasks/get", "tasks/cancel"):
                refused = [await caller.refusal(method, taskId=task_id) for task_id in (child.id, unknown)]
                assert refused == [NOT_FOUND, NOT_FOUND]
        assert await old.refusal("tasks/result", taskId=child.id) == NOT_FOUND
        answers = {"any": {"action": "cancel"}}
        assert await new.refusal("tasks/update", taskId=child.id, inputResponses=answers) == NOT_FOUND
        assert [listed["taskId"] for listed in (await old.ask("tasks/list"))["tasks"]] == [parent_id]
        assert child.id not in str(await plain.use("list_tasks"))
        for tool in ("get_task", "cancel_task", "wait_task", "answer_task"):
            said = await plain.use(tool, task_id=child.id)
            assert (said["isError"], wire_text_of(said)) == (True, NOT_FOUND["message"])
        gate.set()
        assert wire_text_of(await old.collect(parent_id)) == "0"


async def test_children_are_not_found_as_tasks_of_nobody_either(server: TaskServer, gate: asyncio.Event) -> None:
    async with server.started():
        task = await server.call_tool("parent", task_meta=TASK)
        (child,) = await children_of(server, task, 1)
        with pytest.raises(TaskNotFound):
            await server.task(child.id)
        assert [each.id for each in (await server.list_tasks()).tasks] == [task.id]
        assert (await server.task(child.id, task.latest.as_owner)).id == child.id
        gate.set()
        await task


async def test_a_parent_has_no_more_unfinished_children_than_the_policy_says() -> None:
    server = TaskServer("test", store="memory://", policy=Policy(children=2, quota=1))
    refused: list[QuotaExceeded] = []

    @server.tool(task=True)
    async def child() -> None:
        await asyncio.Event().wait()

    @server.tool(task=True)
    async def parent(ctx: Context) -> None:
        held = [await server.call_tool("child", {}, ctx, task_meta=TASK) for _ in range(2)]
        try:
            await server.call_tool("child", {}, ctx, task_meta=TASK)
        except QuotaExceeded as error:
            refused.append(error)
        await held[0].cancel()
        held.append(await server.call_tool("child", {}, ctx, task_meta=TASK))
        for task in held[1:]:
            await task.cancel()

    async with server.started():
        result = await (await server.call_tool("parent", task_meta=TaskMeta(owner="ann")))
        assert not result.is_error
        assert [error.quota for error in refused] == [2]


async def test_a_parent_that_ends_leaves_its_children_running(server: TaskServer, gate: asyncio.Event) -> None:
    @server.tool(task=True)
    async def begin(ctx: Context, fails: bool) -> str:
        await server.call_tool("child", {"n": 5}, ctx, task_meta=TASK)
        if fails:
            raise RuntimeError("after that")
        return "begun"

    async with server.started():
        for fails in (False, True):
            task = await server.call_tool("begin", {"fails": fails}, task_meta=TASK)
            await task
            (child,) = await children_of(server, task, 1)
            assert child.latest.status is Status.WORKING
            gate.set()
            assert text_of(await child) == "5"
            gate.clear()


# Waiting


async def test_waiting_for_a_child_may_end_before_the_child_does(server: TaskServer, gate: asyncio.Event) -> None:
    @server.tool(task=True)
    async def patient(ctx: Context) -> list[str]:
        task = await server.call_tool("child", {"n": 5}, ctx, task_meta=TASK)
        first = (await task.wait(0.001)).status.value
        try:
            await task.result(0.001)
        except TimeoutError:
            gate.set()
        return [first, text_of(await task), (await task.wait(0)).status.value]

    async with server.started():
        task = await server.call_tool("patient", task_meta=TASK)
        assert (await task).structured_content == {"result": ["working", "5", "completed"]}


@pytest.mark.parametrize("parents", [1, 10])
async def test_a_parent_that_waits_for_its_children_does_not_stand_in_their_way(parents: int) -> None:
    server = TaskServer("test", store="memory://", concurrency=1)

    @server.tool(task=True)
    async def grandchild(n: int) -> int:
        return n

    @server.tool(task=True)
    async def child(n: int, ctx: Context) -> int:
        return int(text_of(await (await server.call_tool("grandchild", {"n": n}, ctx, task_meta=TASK)))) + 1

    @server.tool(task=True)
    async def parent(n: int, ctx: Context) -> int:
        made = [await server.call_tool("child", {"n": n + each}, ctx, task_meta=TASK) for each in range(2)]
        return sum([int(text_of(result)) for result in await asyncio.gather(*(task.result() for task in made))])

    async with server.started():
        tasks = [await server.call_tool("parent", {"n": n}, task_meta=TASK) for n in range(parents)]
        assert [int(text_of(await task.result(PATIENCE))) for task in tasks] == [2 * n + 3 for n in range(parents)]


async def test_no_more_run_at_once_than_there_is_room_for_though_parents_come_back() -> None:
    server = TaskServer("test", store="memory://", concurrency=2)
    at_once: list[int] = [0, 0]

    @server.tool(task=True)
    async def child() -> None:
        at_once[0] += 1
        at_once[1] = max(at_once)
        for _ in range(50):
            await asyncio.sleep(0)
        at_once[0] -= 1

    @server.tool(task=True)
    async def parent(ctx: Context) -> None:
        for _ in range(3):
            await (await server.call_tool("child", {}, ctx, task_meta=TASK))

    async with server.started():
        tasks = [await server.call_tool("parent", task_meta=TASK) for _ in range(6)]
        for task in tasks:
            await task.result(PATIENCE)
    assert at_once[0] == 0
    assert at_once[1] <= 2


async def test_two_may_wait_for_one_child(server: TaskServer, gate: asyncio.Event) -> None:
    @server.tool(task=True)
    async def twice(ctx: Context) -> list[str]:
        task = await server.call_tool("child", {"n": 5}, ctx, task_meta=TASK)
        asyncio.get_running_loop().call_soon(gate.set)
        return [text_of(result) for result in await asyncio.gather(task.result(), task.result())]

    async with server.started():
        task = await server.call_tool("twice", task_meta=TASK)
        assert (await task.result(PATIENCE)).structured_content == {"result": ["5", "5"]}


# What goes wrong with a child


@pytest.mark.parametrize("verb", ["cancel", "send_input", "fetch"])
async def test_an_error_about_a_child_is_the_parents_to_deal_with(server: TaskServer, verb: str, gate: Any) -> None:
    @server.tool(task=True)
    async def clumsy(ctx: TaskContext) -> None:
        task = await server.call_tool("child", {}, ctx, task_meta=TASK)
        gate.set()
        await task
        if verb == "fetch":
            await server.tasks.running.engine.forget(await task.fetch())
        await getattr(task, verb)()

    async with server.started():
        task = await server.call_tool("clumsy", task_meta=TASK)
        result = await task.result(PATIENCE)
        assert result.is_error
        assert task.latest.status is Status.COMPLETED


async def test_a_child_that_expires_is_an_error_in_its_parent(server: TaskServer) -> None:
    @server.tool(task=True)
    async def clumsy(ctx: Context) -> str:
        task = await server.call_tool("child", {}, ctx, task_meta=TASK)
        await server.tasks.running.engine.forget(await task.fetch())
        try:
            await task
        except TaskNotFound as error:
            return str(error).replace(task.id, "ID")
        return "found"

    async with server.started():
        task = await server.call_tool("clumsy", task_meta=TASK)
        assert text_of(await task.result(PATIENCE)) == "Task ID not found"


async def test_a_child_that_was_cancelled_is_an_error_in_its_parent(server: TaskServer) -> None:
    async with server.started():
        task = await server.call_tool("parent", task_meta=TASK)
        (child,) = await children_of(server, task, 1)
        await child.cancel("not this one")
        assert (await task.result(PATIENCE)).is_error
        assert (await until(child, lambda now: True)).status is Status.CANCELLED


# For whom


@requirement("E-051", "M-016")
async def test_who_called_the_parent_is_known_in_the_child() -> None:
    server = guarded()

    @server.tool(task=True)
    async def who() -> str:
        token = get_access_token()
        return f"{token and token.subject} {token and token.token}"

    @server.tool(task=True)
    async def parent(ctx: Context) -> str:
        return text_of(await (await server.call_tool("who", {}, ctx, task_meta=TASK)))

    async with callers(server) as (ann, bob, _):
        for name, caller in (("ann", ann), ("bob", bob)):
            task_id = await caller.hand_in("parent")
            owner = (await server.tasks.running.engine.list_all())[1].owner
            await (await server.task(task_id, owner))
            # The token itself is a secret, and not kept.
            assert (await caller.get(task_id))["result"]["content"][0]["text"] == f"{name} "


@requirement("F-062")
@pytest.mark.parametrize(("name", "may"), [("ann", True), ("bob", False)])
async def test_a_child_is_made_only_if_the_parents_caller_may_make_it(name: str, may: bool) -> None:
    server, caught = guarded(), list[Exception]()

    @server.tool(task=True, authorize=role("editor"))
    async def edit() -> str:
        return "edited"

    @server.tool(task=True)
    async def parent(ctx: Context) -> str:
        try:
            return text_of(await (await server.call_tool("edit", {}, ctx, task_meta=TASK)))
        except Forbidden as error:
            caught.append(error)
            return "forbidden"

    async with callers(server) as everyone:
        caller = everyone[0] if name == "ann" else everyone[1]
        task_id = await caller.hand_in("parent")
        (task,) = [task for task in await server.tasks.running.engine.list_all() if task.id == task_id]
        await server.tasks.running.engine.finished(task)
        said = (await caller.get(task_id))["result"]["content"][0]["text"]
        assert said == ("edited" if may else "forbidden")
        assert len(await server.tasks.running.engine.list_all()) == (2 if may else 1)
    assert bool(caught) is not may
