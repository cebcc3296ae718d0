"""A call that asks for a task: what is answered, how long it lives, and what is refused before there is one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import pytest
from mcp.shared.exceptions import MCPError
from pydantic import Field

from coatcheck import Policy
from coatcheck.server import TaskPolicy, TaskServer
from tests.requirements.marks import requirement
from tests.v2025.bench import Bench
from tests.v2025.wire import HINT, STATUS, Talk, Transport, served, text_of

pytestmark = pytest.mark.anyio

HOUR, DAY = 3_600_000, 86_400_000


async def create(caller: Talk, tool: str = "wait", task: Any = None, **arguments: Any) -> dict[str, Any]:
    return await caller.ask("tools/call", name=tool, arguments=arguments, task={} if task is None else task)


# The answer


@requirement("F-025", "F-011", "F-014", "R-13", "R-14", "R-16", "R-29", "G-005", "F-006")
async def test_a_call_that_asks_for_a_task_is_answered_with_one_at_once(caller: Talk, bench: Bench) -> None:
    before = datetime.now(UTC)
    created = await create(caller)
    assert not bench.go.is_set()
    task = created["task"]
    assert created.keys() == {"task", "_meta"}
    assert task.keys() == {"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"}
    assert (task["status"], task["ttl"], task["pollInterval"]) == ("working", HOUR, 2000)
    made_at = datetime.fromisoformat(task["createdAt"])
    assert before <= made_at <= datetime.fromisoformat(task["lastUpdatedAt"]) <= datetime.now(UTC)


@requirement("G-004")
async def test_a_host_is_given_something_to_tell_its_model_meanwhile(caller: Talk) -> None:
    created = await create(caller)
    hint = created["_meta"][HINT]
    assert created["task"]["taskId"] in hint
    assert "wait" in hint


@requirement("F-025", "R-05")
async def test_a_task_can_be_looked_at_as_soon_as_it_is_answered(caller: Talk) -> None:
    created = await create(caller)
    assert await caller.get(created["task"]["taskId"]) == created["task"]


@requirement("R-29", "F-025")
async def test_a_task_that_waits_for_a_worker_is_working_and_says_so() -> None:
    async with served(Bench(concurrency=0).server) as place:
        task = (await create(await place.memory()))["task"]
    assert (task["status"], task["statusMessage"]) == ("working", "Waiting for a worker")


@requirement("F-058", "E-044", "R-11")
async def test_ids_are_long_and_each_is_another(memory: Talk) -> None:
    ids = [await memory.hand_in("add", a=1) for _ in range(20)]
    assert len(set(ids)) == 20
    assert min(len(task_id) for task_id in ids) >= 22  # characters for 128 bits


@requirement("F-014", "E-023", "R-14", "E-006")
async def test_a_tool_has_a_poll_interval_of_its_own() -> None:
    server = TaskServer("test", store="memory://", policy=Policy(poll_interval=timedelta(seconds=7)))

    @server.tool(task=True)
    async def usual() -> None: ...

    @server.tool(task=TaskPolicy("required", poll_interval=0.25))
    async def own() -> None: ...

    async with served(server) as place:
        caller = await place.memory()
        assert (await create(caller, "usual"))["task"]["pollInterval"] == 7000
        assert (await create(caller, "own"))["task"]["pollInterval"] == 250


# Lifetimes


@requirement("F-010", "F-012", "G-018", "G-019", "R-13")
@pytest.mark.parametrize(
    ("task", "ttl"),
    [
        ({}, HOUR),
        ({"ttl": 60_000}, 60_000),
        ({"ttl": 1}, 1),
        ({"ttl": DAY}, DAY),
        ({"ttl": DAY + 1}, DAY),
        ({"ttl": 10**15}, DAY),
        ({"ttl": None}, DAY),
    ],
    ids=str,
)
async def test_a_client_may_wish_for_a_lifetime_and_is_told_the_real_one(
    memory: Talk, task: dict[str, Any], ttl: int
) -> None:
    assert (await create(memory, task=task))["task"]["ttl"] == ttl


@requirement("F-010", "G-019")
async def test_a_lifetime_is_the_same_in_every_answer(caller: Talk) -> None:
    task_id = (await create(caller, task={"ttl": 90_000}))["task"]["taskId"]
    assert (await caller.get(task_id))["ttl"] == 90_000
    assert (await caller.ask("tasks/list"))["tasks"][0]["ttl"] == 90_000
    assert (await caller.told(task_id, "working"))["ttl"] == 90_000


@requirement("G-018", "R-13")
async def test_a_lifetime_without_end_is_null_where_the_operator_allows_it() -> None:
    async with served(Bench(policy=Policy(allows_unlimited_ttl=True)).server) as place:
        task = (await create(await place.memory(), task={"ttl": None}))["task"]
    assert "ttl" in task
    assert task["ttl"] is None


@requirement("F-011", "F-012", "R-13")
async def test_an_operator_sets_the_usual_lifetime_and_the_longest() -> None:
    policy = Policy(ttl=timedelta(minutes=2), max_ttl=timedelta(minutes=3))
    async with served(Bench(policy=policy).server) as place:
        caller = await place.memory()
        assert (await create(caller))["task"]["ttl"] == 120_000
        assert (await create(caller, task={"ttl": HOUR}))["task"]["ttl"] == 180_000
        assert (await create(caller, task={"ttl": None}))["task"]["ttl"] == 180_000


@requirement("F-010")
async def test_the_wish_of_the_client_comes_before_that_of_the_tool() -> None:
    server = TaskServer("test", store="memory://")

    @server.tool(task=TaskPolicy("optional", ttl=60))
    async def tool() -> None: ...

    async with served(server) as place:
        caller = await place.memory()
        assert (await create(caller, "tool"))["task"]["ttl"] == 60_000
        assert (await create(caller, "tool", task={"ttl": HOUR}))["task"]["ttl"] == HOUR


@requirement("F-013")
@pytest.mark.parametrize("ttl", [0, -1, -DAY, "soon", 1.5, [], {}], ids=str)
async def test_what_is_no_lifetime_is_refused(memory: Talk, bench: Bench, ttl: Any) -> None:
    refused = await memory.refusal("tools/call", name="add", arguments={"a": 1}, task={"ttl": ttl})
    assert refused["code"] == -32602
    assert bench.runs == []
    assert await memory.ask("tasks/list") == {"tasks": []}


@requirement("F-013", "F-061")
@pytest.mark.parametrize("ttl", [0, -1])
async def test_what_is_no_lifetime_is_refused_on_every_transport(caller: Talk, ttl: int) -> None:
    refused = await caller.refusal("tools/call", name="add", arguments={"a": 1}, task={"ttl": ttl})
    assert refused["code"] == -32602


# Who becomes a task


@requirement("F-004", "R-08", "F-061")
async def test_a_tool_that_is_no_task_is_refused_to_who_asks_for_one(caller: Talk, bench: Bench) -> None:
    refused = await caller.refusal("tools/call", name="plain", arguments={}, task={})
    assert refused["code"] == -32601
    assert "without `task`" in refused["message"]
    assert bench.runs == []
    assert text_of(await caller.use("plain")) == "plain"


@requirement("F-005", "R-09", "F-061")
async def test_a_tool_that_is_only_ever_a_task_is_refused_to_who_asks_for_none(caller: Talk, bench: Bench) -> None:
    refused = await caller.refusal("tools/call", name="task_only", arguments={})
    assert refused["code"] == -32601
    assert "with `task`" in refused["message"]
    assert bench.runs == []
    assert text_of(await caller.collect(await caller.hand_in("task_only"))) == "as a task"


@requirement("F-006")
async def test_a_tool_that_may_be_a_task_is_answered_directly_to_who_asks_for_none(caller: Talk) -> None:
    assert await caller.use("add", a=1) == {
        "content": [{"type": "text", "text": "2"}],
        "structuredContent": {"result": 2},
        "isError": False,
    }
    assert await caller.ask("tasks/list") == {"tasks": []}
    assert caller.all_told(STATUS) == []


@requirement("R-08", "F-006")
async def test_promote_after_does_not_matter_to_who_asks_for_a_task() -> None:
    server = TaskServer("test", store="memory://")

    @server.tool(task=TaskPolicy("optional", promote_after=60))
    async def quick() -> str:
        return "quick"

    async with served(server) as place:
        caller = await place.memory()
        task_id = (await create(caller, "quick"))["task"]["taskId"]
        assert text_of(await caller.collect(task_id)) == "quick"


@requirement("R-22", "E-002", "E-003")
async def test_nothing_but_a_tool_is_ever_a_task(bench: Bench, transport: Transport) -> None:
    @bench.server.prompt()
    def greeting() -> str:
        return "Hello"

    @bench.server.resource("file:///a")
    def a() -> str:
        return "A"

    async with served(bench.server, transport) as place:
        caller = await place.connect(transport)
        assert "messages" in await caller.ask("prompts/get", name="greeting", task={})
        assert "contents" in await caller.ask("resources/read", uri="file:///a", task={})
        assert "tools" in await caller.ask("tools/list", task={})
        assert caller.greeting["capabilities"]["tasks"]["requests"] == {"tools": {"call": {}}}


# What is refused before there is a task


@requirement("F-057", "F-061")
@pytest.mark.parametrize("arguments", [{}, {"a": "one"}, {"a": None}], ids=str)
async def test_arguments_that_do_not_fit_are_refused_and_there_is_no_task(
    memory: Talk, bench: Bench, arguments: dict[str, Any]
) -> None:
    refused = await memory.refusal("tools/call", name="add", arguments=arguments, task={})
    assert refused["code"] == -32602
    assert "a" in refused["message"]
    assert bench.runs == []
    assert await memory.ask("tasks/list") == {"tasks": []}
    assert memory.all_told(STATUS) == []


@requirement("F-057")
async def test_what_a_validator_of_the_author_refuses_never_becomes_a_task(transport: Transport) -> None:
    server = TaskServer("test", store="memory://")

    @server.tool(task=True)
    async def few(count: Annotated[int, Field(le=3)]) -> int:
        return count

    async with served(server, transport) as place:
        caller = await place.connect(transport)
        with pytest.raises(MCPError) as refused:
            await create(caller, "few", count=4)
        assert refused.value.code == -32602
        assert await caller.ask("tasks/list") == {"tasks": []}


@requirement("F-004", "F-061")
async def test_a_tool_that_is_not_there_is_no_task(caller: Talk) -> None:
    refused = await caller.refusal("tools/call", name="nowhere", arguments={}, task={})
    assert refused["code"] in (-32601, -32602)
    assert await caller.ask("tasks/list") == {"tasks": []}


@requirement("F-061")
@pytest.mark.parametrize("task", [7, "yes", True, []], ids=str)
async def test_a_wish_that_is_no_object_is_refused(memory: Talk, bench: Bench, task: Any) -> None:
    refused = await memory.refusal("tools/call", name="add", arguments={"a": 1}, task=task)
    assert refused["code"] == -32602
    assert bench.runs == []


@requirement("F-016", "G-016", "E-048")
async def test_a_session_has_at_most_sixteen_tasks_under_way(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller, other = await place.http(), await place.http()
        ids = [await caller.hand_in("wait") for _ in range(16)]
        refused = await caller.refusal("tools/call", name="wait", arguments={}, task={})
        assert refused["code"] == -31429
        assert refused["data"] == {"unfinished": 16}
        assert len((await caller.ask("tasks/list"))["tasks"]) == 16
        await other.hand_in("wait")
        await caller.ask("tasks/cancel", taskId=ids[0])
        await caller.hand_in("wait")


@requirement("F-016", "E-048")
async def test_an_operator_sets_how_many_tasks_may_be_under_way() -> None:
    async with served(Bench(policy=Policy(quota=1)).server) as place:
        caller = await place.http()
        await caller.hand_in("wait")
        assert (await caller.refusal("tools/call", name="wait", arguments={}, task={}))["code"] == -31429
