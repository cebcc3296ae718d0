"""What a call says about its task, and what is refused before there is one."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies
from mcp.server.mcpserver.exceptions import ToolError

from coatcheck import IdempotencyConflict, InvalidArgument, Policy, QuotaExceeded
from coatcheck.server import LocalTask, TaskMeta, TaskServer
from tests.local.stage import TASK, text_of
from tests.requirements.marks import requirement

pytestmark = pytest.mark.anyio


def build(**options: Any) -> TaskServer:
    server = TaskServer("test", store="memory://", **options)

    @server.tool(task=True)
    async def echo(n: int = 0) -> int:
        return n

    @server.tool(task=True)
    async def hold() -> None:
        await asyncio.Event().wait()

    @server.tool()
    async def never() -> str:
        return "never a task"

    return server


def lifetime(task: LocalTask[Any]) -> timedelta | None:
    latest = task.latest
    return None if latest.expires_at is None else latest.expires_at - latest.created_at


async def rows(server: TaskServer) -> int:
    return len(await server.tasks.running.engine.list_all())


@requirement("E-019")
@pytest.mark.parametrize(
    ("ttl", "given"),
    [
        (90, timedelta(seconds=90)),
        (0.5, timedelta(seconds=0.5)),
        (timedelta(minutes=3), timedelta(minutes=3)),
        (timedelta(days=30), timedelta(days=2)),
    ],
    ids=str,
)
async def test_a_call_says_how_long_its_task_lives_up_to_what_the_operator_allows(ttl: Any, given: timedelta) -> None:
    server = build(policy=Policy(max_ttl=timedelta(days=2)), concurrency=0)
    async with server.started():
        assert lifetime(await server.call_tool("echo", task_meta=TaskMeta(ttl=ttl))) == given


async def test_without_a_wish_a_task_lives_as_long_as_its_tool_says() -> None:
    server = build(policy=Policy(ttl=timedelta(minutes=7)), concurrency=0)
    async with server.started():
        assert lifetime(await server.call_tool("echo", task_meta=TASK)) == timedelta(minutes=7)


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_a_task_lives_for_ever_where_that_is_allowed(is_allowed: bool) -> None:
    server = build(policy=Policy(allows_unlimited_ttl=is_allowed), concurrency=0)
    async with server.started():
        if is_allowed:
            assert lifetime(await server.call_tool("echo", task_meta=TaskMeta(ttl=None))) is None
        else:
            with pytest.raises(InvalidArgument):
                await server.call_tool("echo", task_meta=TaskMeta(ttl=None))
            assert await rows(server) == 0


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), "soon"])
async def test_what_is_no_lifetime_is_refused(ttl: Any) -> None:
    server = build()
    async with server.started():
        with pytest.raises(InvalidArgument, match="ttl"):
            await server.call_tool("echo", task_meta=TaskMeta(ttl=ttl))
        assert await rows(server) == 0


@requirement("M-003")
@given(field=strategies.sampled_from([field.name for field in dataclasses.fields(TaskMeta)]), value=strategies.text())
def test_a_task_meta_never_changes(field: str, value: str) -> None:
    meta = TaskMeta()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(meta, field, value)
    assert meta == TaskMeta()
    assert hash(meta) == hash(TaskMeta())


async def test_a_task_meta_may_be_used_again() -> None:
    server, meta = build(), TaskMeta(ttl=60)
    async with server.started():
        first, second = [await server.call_tool("echo", {"n": n}, task_meta=meta) for n in range(2)]
        assert [text_of(await first), text_of(await second)] == ["0", "1"]
        assert meta == TaskMeta(ttl=60)


async def test_a_repeat_under_the_same_key_is_the_same_task() -> None:
    server, meta = build(), TaskMeta(idempotency_key="report-1")
    async with server.started():
        first = await server.call_tool("echo", {"n": 1}, task_meta=meta)
        second = await server.call_tool("echo", {"n": 1}, task_meta=meta)
        assert first.id == second.id
        assert text_of(await second) == "1"
        with pytest.raises(IdempotencyConflict, match="use a new key"):
            await server.call_tool("echo", {"n": 2}, task_meta=meta)
        other = await server.call_tool("echo", {"n": 2}, task_meta=dataclasses.replace(meta, owner="ann"))
        assert other.id != first.id
        assert await rows(server) == 2


async def test_a_task_belongs_to_whom_the_call_says() -> None:
    server = build()
    async with server.started():
        task = await server.call_tool("echo", task_meta=TaskMeta(owner="ann"))
        assert task.latest.owner == "ann"
        assert (await task.fetch()).owner == "ann"
        await task


@pytest.mark.parametrize("owner", ["", "a\nb", "task:abc", 7])
async def test_what_can_be_no_owner_is_refused(owner: Any) -> None:
    server = build()
    async with server.started():
        with pytest.raises(InvalidArgument):
            await server.call_tool("echo", task_meta=TaskMeta(owner=owner))
        assert await rows(server) == 0


async def test_an_owner_has_no_more_unfinished_tasks_than_the_policy_says() -> None:
    server = build(policy=Policy(quota=2), max_unfinished=1)
    async with server.started():
        held = [await server.call_tool("hold", task_meta=TaskMeta(owner="ann")) for _ in range(2)]
        with pytest.raises(QuotaExceeded, match="already have 2 unfinished tasks"):
            await server.call_tool("echo", task_meta=TaskMeta(owner="ann"))
        held.append(await server.call_tool("hold", task_meta=TASK))
        with pytest.raises(QuotaExceeded, match="already 1 unfinished"):
            await server.call_tool("echo", task_meta=TASK)
        for task in held:
            await task.cancel()
        await (await server.call_tool("echo", task_meta=TASK))


@pytest.mark.parametrize("name", ["never", "nobody_has_it"])
async def test_a_tool_whose_calls_are_no_tasks_is_refused_with_what_to_do(name: str) -> None:
    server = build()
    async with server.started():
        with pytest.raises(InvalidArgument, match=rf"tool '{name}' are no tasks here; register it with task=True, or"):
            await server.call_tool(name, task_meta=TASK)
        assert await rows(server) == 0


@pytest.mark.parametrize("arguments", [{"n": "many"}, {"n": None}, {"n": [1]}])
async def test_arguments_are_validated_by_the_sdk_before_there_is_a_task(arguments: Any) -> None:
    server = build()
    async with server.started():
        with pytest.raises(ToolError) as plainly:
            await server.call_tool("echo", arguments)
        with pytest.raises(ToolError) as refused:
            await server.call_tool("echo", arguments, task_meta=TASK)
        assert str(refused.value) == str(plainly.value)
        assert await rows(server) == 0


@requirement("M-008", "M-009")
async def test_the_component_is_filled_in_by_the_server_and_kept_if_it_is_given() -> None:
    server = build()

    @server.tool(task=True)
    async def double(n: int = 0) -> int:
        return 2 * n

    async with server.started():
        assert (await server.call_tool("echo", {"n": 2}, task_meta=TASK)).latest.call.tool == "echo"
        kept = await server.call_tool("echo", {"n": 2}, task_meta=TaskMeta(component="tool:double"))
        assert kept.latest.call.tool == "double"
        assert text_of(await kept) == "4"


@pytest.mark.parametrize("component", ["tool:unknown", "echo", "tool:never", "", "resource:notes://x", "prompt:ask"])
async def test_a_component_that_cannot_carry_the_call_out_is_refused(component: str) -> None:
    server = build()

    @server.resource("notes://x", task=True)
    async def note() -> str:
        return "x"

    @server.prompt(task=True)
    async def ask() -> str:
        return "?"

    async with server.started():
        with pytest.raises(InvalidArgument, match="leave out component"):
            await server.call_tool("echo", task_meta=TaskMeta(component=component))
        assert await rows(server) == 0


@pytest.mark.parametrize("name", ["resource:notes://x", "prompt:ask"])
def test_a_tool_whose_name_reads_as_another_component_cannot_be_a_task(name: str) -> None:
    server = TaskServer("test", store="memory://")

    async def odd() -> str:
        return "odd"

    with pytest.raises(InvalidArgument, match="name it otherwise"):
        server.add_tool(odd, name, task=True)
