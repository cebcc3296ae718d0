"""What an author says about a tool, and what comes of it for each kind of caller."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from coatcheck import InvalidArgument, Policy
from coatcheck.server import TaskPolicy, TaskServer
from tests.requirements.marks import requirement
from tests.server.conftest import Connect
from tests.server.wire import EXTENSION, in_memory, over_http

pytestmark = pytest.mark.anyio

MODES: dict[str, Any] = {
    "nothing": None,
    "False": False,
    "forbidden": "forbidden",
    "True": True,
    "optional": "optional",
    "required": "required",
    "in full": TaskPolicy("required", ttl=5),
}


async def answer() -> str:
    return "done"


async def _kind(server: TaskServer, tool: str = "answer", *, capabilities: dict[str, Any]) -> str | int:
    """Return what a call gives: a task, a complete answer, or the code of its refusal."""
    async with over_http(server, capabilities=capabilities) as caller:
        try:
            return (await caller.call(tool))["resultType"]
        except MCPError as refusal:
            return refusal.code


@requirement("R-08", "S-005", "S-006", "S-009", "R-09")
@pytest.mark.parametrize(
    ("wish", "with_tasks", "without"),
    [
        ("nothing", "complete", "complete"),
        ("False", "complete", "complete"),
        ("forbidden", "complete", "complete"),
        ("True", "task", "complete"),
        ("optional", "task", "complete"),
        ("required", "task", -32021),
        ("in full", "task", -32021),
    ],
)
async def test_a_tools_mode_meets_what_its_caller_can_do(
    server: TaskServer, wish: str, with_tasks: str, without: str | int
) -> None:
    server.add_tool(answer, task=MODES[wish])
    declared: dict[str, Any] = {"extensions": {EXTENSION: {}}}
    assert await _kind(server, capabilities=declared) == with_tasks
    assert await _kind(server, capabilities={}) == without


@requirement("S-009", "R-09", "ER-1", "T-02")
async def test_a_refusal_names_what_the_client_would_need(server: TaskServer) -> None:
    server.add_tool(answer, task="required")
    async with over_http(server, capabilities={}) as caller:
        reply = await caller.post(caller.message("tools/call", {"name": "answer", "arguments": {}}))
    assert reply.status == 400
    error = reply.message()["error"]
    assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"extensions": {EXTENSION: {}}}})
    assert EXTENSION in error["message"]


async def test_a_tool_that_must_be_a_task_does_not_run_for_those_it_is_refused_to(server: TaskServer) -> None:
    ran = False

    @server.tool(task="required")
    async def note() -> None:
        nonlocal ran
        ran = True

    assert await _kind(server, "note", capabilities={}) == -32021
    assert not ran


@requirement("R-08")
@pytest.mark.parametrize(
    ("default", "wish", "kind"),
    [
        (None, None, "complete"),
        (True, None, "task"),
        ("required", None, "task"),
        (True, False, "complete"),
        ("required", "forbidden", "complete"),
        (False, True, "task"),
        ("forbidden", "required", "task"),
        (TaskPolicy("optional", ttl=7), TaskPolicy(poll_interval=3), "task"),
        (TaskPolicy(ttl=7), None, "complete"),
    ],
)
async def test_a_tool_overrides_the_default_of_its_server(default: Any, wish: Any, kind: str) -> None:
    server = TaskServer("test", store="memory://", task=default)
    server.add_tool(answer, task=wish)
    assert await _kind(server, capabilities={"extensions": {EXTENSION: {}}}) == kind


@requirement("R-13", "R-14")
async def test_terms_a_tool_leaves_out_are_those_of_its_server() -> None:
    server = TaskServer("test", store="memory://", task=TaskPolicy("optional", ttl=60, poll_interval=5))
    server.add_tool(answer, "all")
    server.add_tool(answer, "some", task=TaskPolicy(poll_interval=timedelta(milliseconds=250)))
    server.add_tool(answer, "none", task=TaskPolicy("required", ttl=timedelta(hours=2), poll_interval=1))
    async with in_memory(server) as caller:
        created = [await caller.call(tool) for tool in ("all", "some", "none")]
    assert [(task["ttlMs"], task["pollIntervalMs"]) for task in created] == [
        (60_000, 5000),
        (60_000, 250),
        (7_200_000, 1000),
    ]


@requirement("R-13")
async def test_a_wish_for_a_longer_life_is_cut_to_what_the_operator_allows() -> None:
    server = TaskServer("test", store="memory://", policy=Policy(max_ttl=timedelta(hours=2)))
    server.add_tool(answer, task=TaskPolicy("optional", ttl=timedelta(days=30)))
    async with in_memory(server) as caller:
        assert (await caller.call("answer"))["ttlMs"] == 7_200_000


@requirement("R-13", "T-08")
async def test_a_task_may_live_without_end_where_the_operator_allows_it(connect: Connect) -> None:
    server = TaskServer("test", store="memory://", policy=Policy(allows_unlimited_ttl=True))
    server.add_tool(answer, task=TaskPolicy("optional", ttl=None))
    async with connect(server) as caller:
        created = await caller.call("answer")
        assert created["ttlMs"] is None
        done = await caller.finished(created["taskId"])
    assert ("ttlMs" in done, done["ttlMs"]) == (True, None)


@requirement("R-13")
def test_a_wish_for_no_end_is_refused_where_it_is_not_allowed(server: TaskServer) -> None:
    with pytest.raises(InvalidArgument, match="ttl"):
        server.add_tool(answer, task=TaskPolicy("optional", ttl=None))


@pytest.mark.parametrize("concurrency", [0, 1])
@requirement("R-14")
async def test_terms_are_the_same_whoever_runs_the_task(concurrency: int) -> None:
    server = TaskServer("test", store="memory://", concurrency=concurrency)
    server.add_tool(answer, task=TaskPolicy("optional", ttl=9, poll_interval=0.5, resumable=True))
    async with in_memory(server) as caller:
        created = await caller.call("answer")
        task = await server.tasks.running.engine.get(created["taskId"])
    assert (created["ttlMs"], created["pollIntervalMs"], task.resumable) == (9000, 500, True)


@requirement("S-065")
async def test_work_that_takes_too_long_is_stopped_and_fails(server: TaskServer) -> None:
    stopped = asyncio.Event()

    @server.tool(task=TaskPolicy("optional", timeout=0.05))
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with in_memory(server) as caller:
        done = await caller.finished(await caller.hand_in("endless"))
    assert (done["status"], done["error"]["code"]) == ("failed", -32603)
    assert "took longer" in done["statusMessage"]
    assert stopped.is_set()


@pytest.mark.parametrize("resumable", [True, False])
async def test_only_what_is_said_to_be_resumable_is(server: TaskServer, resumable: bool) -> None:
    server.add_tool(answer, task=TaskPolicy("optional", resumable=resumable))
    async with in_memory(server) as caller:
        task = await server.tasks.running.engine.get(await caller.hand_in("answer"))
    assert task.resumable is resumable


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "always"},
        {"ttl": 0},
        {"ttl": -1},
        {"ttl": "1h"},
        {"poll_interval": None},
        {"poll_interval": 0},
        {"timeout": float("nan")},
        {"promote_after": -1},
        {"promote_after": True},
        {"timeout": timedelta(0)},
    ],
    ids=str,
)
def test_a_policy_that_means_nothing_is_refused_where_it_is_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        TaskPolicy(**wrong)


@pytest.mark.parametrize("wish", ["always", "", "Optional"])
def test_a_mode_that_does_not_exist_is_refused_where_it_is_written(server: TaskServer, wish: Any) -> None:
    with pytest.raises(InvalidArgument, match="forbidden, optional, required"):
        server.add_tool(answer, task=wish)


def test_a_forgotten_pair_of_parentheses_is_pointed_out(server: TaskServer) -> None:
    with pytest.raises(TypeError, match="parentheses"):
        server.tool(answer)  # pyright: ignore[reportArgumentType]


def test_a_decorated_tool_can_still_be_called_as_the_function_it_is(server: TaskServer) -> None:
    @server.tool(task=True)
    def double(number: int) -> int:
        return 2 * number

    assert double(4) == 8


def test_what_may_be_a_task_is_told_in_words(server: TaskServer) -> None:
    server.add_tool(answer, "b", task="required")
    server.add_tool(answer, "a", task=True)
    server.add_tool(answer, "c")
    assert server.tasks.describe() == ["a (optional)", "b (required)"]


@pytest.mark.parametrize("wrong", [{"concurrency": -1}, {"max_unfinished": 0}, {"poll_limit": 0.5}])
def test_settings_that_mean_nothing_are_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        TaskServer("test", store="memory://", **wrong)
