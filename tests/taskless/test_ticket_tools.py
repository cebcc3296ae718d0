"""The tools that take tickets: `get_task`, `wait_task`, `cancel_task` and `list_tasks`."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from coatcheck import Policy
from tests.matrix.peers import PATIENCE
from tests.requirements.marks import requirement
from tests.taskless.tickets import PROMPTLY, TOOLS, a_bench, a_ticket, complaint, ticket
from tests.v2025.bench import Bench, guarded
from tests.v2025.wire import NEW, OLD, RELATED, VERSION, WITH_TASKS, Place, Talk, Transport, served, text_of

pytestmark = pytest.mark.anyio

UNKNOWN = "Failed to retrieve task: Task not found"
OF_ONE_TASK = sorted(TOOLS - {"list_tasks"})


@pytest.fixture
def bench() -> Bench:
    """A server where `wait` takes too long, and others go on as soon as it may."""
    bench = a_bench("wait", task=PROMPTLY)

    async def then(tool: str) -> Any:
        await bench.go.wait()
        return await getattr(bench, tool)()

    bench.server.add_tool(then, task=True, structured_output=False)
    return bench


async def ended(caller: Talk, bench: Bench, tool: str) -> str:
    """Return the ticket of a call that ends as this tool does."""
    task_id = await a_ticket(caller, "then", tool=tool)
    bench.go.set()
    await caller.use("wait_task", task_id=task_id)
    return task_id


# get_task and wait_task


@requirement("X-12", "R-01")
async def test_a_result_is_the_tools_own_and_names_its_task(bench: Bench, transport: Transport, version: str) -> None:
    async with served(bench.server, transport) as place:
        caller = await place.connect(transport, version=version)
        task_id = await a_ticket(caller, "wait")
        bench.go.set()
        waited = await caller.use("wait_task", task_id=task_id)
        assert waited == await caller.use("get_task", task_id=task_id)
    assert waited["content"] == [{"type": "text", "text": "waited"}]
    assert waited["structuredContent"] == {"result": "waited"}
    assert waited["isError"] is False
    assert waited["_meta"][RELATED] == {"taskId": task_id}


@requirement("X-12", "R-01")
async def test_an_error_the_tool_reports_is_its_own_too(bench: Bench, version: str) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(version)
        task_id = await ended(caller, bench, "complain")
        result = await caller.use("get_task", task_id=task_id)
    assert [block["text"] for block in result["content"]] == ["It is broken", "Really"]
    assert (result["isError"], result["structuredContent"]) == (True, {"why": 7})
    assert result["_meta"][RELATED] == {"taskId": task_id}


@requirement("X-12", "R-02", "R-03")
@pytest.mark.parametrize(("tool", "said"), [("refuse", "Too fast"), ("say_no", "No, said the tool")])
async def test_a_task_that_failed_says_why_in_a_result_a_model_can_read(
    bench: Bench, version: str, tool: str, said: str
) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(version)
        task_id = await ended(caller, bench, tool)
        for name in ("get_task", "wait_task"):
            assert said in complaint(await caller.use(name, task_id=task_id))


@requirement("X-12")
async def test_looking_at_a_task_that_goes_on_gives_the_ticket_again(bench: Bench, version: str) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(version)
        first = await caller.use("wait")
        task = ticket(first)
        assert ticket(await caller.use("get_task", task_id=task["taskId"])) == task
        assert ticket(await caller.use("wait_task", task_id=task["taskId"], seconds=0)) == task
        assert ticket(await caller.use("wait_task", task_id=task["taskId"], seconds=0.01)) == task


@requirement("X-12")
async def test_waiting_ends_with_the_task(bench: Bench, version: str) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(version)
        task_id = await a_ticket(caller, "wait")
        waiting = caller.begin("tools/call", {"name": "wait_task", "arguments": {"task_id": task_id, "seconds": 3600}})
        await asyncio.wait_for(bench.begun.wait(), PATIENCE)
        bench.go.set()
        assert text_of((await waiting.answer())["result"]) == "waited"


@requirement("X-12")
async def test_who_gives_up_waiting_does_not_stop_the_task(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory()
        task_id = await a_ticket(caller, "wait")
        waiting = caller.begin("tools/call", {"name": "wait_task", "arguments": {"task_id": task_id}})
        await caller.ask("ping")
        await caller.cancel(waiting)
        await caller.ask("ping")
        assert ticket(await caller.use("get_task", task_id=task_id))["status"] == "working"


@requirement("X-12", "R-25")
async def test_who_waits_with_a_ticket_when_the_server_stops_keeps_the_ticket(bench: Bench, version: str) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(version)
        task_id = await a_ticket(caller, "wait")
        waiting = caller.begin("tools/call", {"name": "wait_task", "arguments": {"task_id": task_id}})
        other = await place.memory()
        await other.ask("ping")
        bench.server.tasks.end_streams()
        assert ticket((await waiting.answer())["result"])["taskId"] == task_id


# cancel_task


@requirement("X-12", "R-05", "F-034")
async def test_a_ticket_can_be_given_back(bench: Bench, transport: Transport, version: str) -> None:
    async with served(bench.server, transport) as place:
        caller = await place.connect(transport, version=version)
        task_id = await a_ticket(caller, "wait")
        await asyncio.wait_for(bench.begun.wait(), PATIENCE)
        assert ticket(await caller.use("cancel_task", task_id=task_id))["status"] == "cancelled"
        await asyncio.wait_for(bench.stopped.wait(), PATIENCE)
        assert "cancelled" in complaint(await caller.use("get_task", task_id=task_id))
    assert bench.runs == []


@requirement("X-12", "R-04")
async def test_what_has_ended_cannot_be_cancelled(bench: Bench, version: str) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(version)
        task_id = await a_ticket(caller, "wait")
        bench.go.set()
        await caller.use("wait_task", task_id=task_id)
        assert "completed" in complaint(await caller.use("cancel_task", task_id=task_id))
        assert text_of(await caller.use("get_task", task_id=task_id)) == "waited"


# list_tasks


@requirement("X-12", "R-06")
async def test_tickets_are_listed_newest_first(bench: Bench, version: str) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(version)
        ids = [await a_ticket(caller, "wait") for _ in range(3)][::-1]
        listed = await caller.use("list_tasks")
        assert [task["taskId"] for task in listed["structuredContent"]["tasks"]] == ids
        assert listed["structuredContent"]["tasks"][0] == ticket(await caller.use("get_task", task_id=ids[0]))
        assert [line.partition(":")[0] for line in text_of(listed).splitlines()] == ids
        assert listed["isError"] is False


@requirement("X-12")
async def test_who_has_no_tickets_is_told_so(bench: Bench, version: str) -> None:
    async with served(bench.server) as place:
        listed = await (await place.memory(version)).use("list_tasks")
    assert listed["structuredContent"] == {"tasks": []}
    assert text_of(listed)


@requirement("X-12", "R-28")
async def test_many_tickets_come_page_by_page(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory()
        ids = [await caller.hand_in("wait") for _ in range(51)][::-1]
        first = (await caller.use("list_tasks"))["structuredContent"]
        rest = (await caller.use("list_tasks", cursor=first["nextCursor"]))["structuredContent"]
        assert [task["taskId"] for task in (*first["tasks"], *rest["tasks"])] == ids
        assert "nextCursor" not in rest
        assert "cursor" in complaint(await caller.use("list_tasks", cursor="nonsense"))


@requirement("X-12", "G-015", "F-009")
async def test_where_callers_cannot_be_told_apart_nothing_is_listed(bench: Bench) -> None:
    async with served(bench.server, stateless_http=True) as place:
        older, newer = await place.http(OLD, stands=False), await place.http(NEW, {})
        for caller in (older, newer):
            await a_ticket(caller, "wait")
            complaint(await caller.use("list_tasks"))


@requirement("X-12", "F-009", "G-014")
@pytest.mark.parametrize("stateless", [False, True], ids=["stateful", "stateless"])
async def test_known_users_list_their_own(version: str, stateless: bool) -> None:
    bench = guarded("wait", fallback_tools=True, task=PROMPTLY)
    async with served(bench.server, stateless_http=stateless) as place:
        ann, bob = [await place.http(version, {}, token=user, stands=False) for user in ("ann", "bob")]
        task_id = await a_ticket(ann, "wait")
        listed = await ann.use("list_tasks")
        assert [task["taskId"] for task in listed["structuredContent"]["tasks"]] == [task_id]
        assert (await bob.use("list_tasks"))["structuredContent"] == {"tasks": []}


# Whose tickets


async def _looks_unknown(caller: Talk, task_id: str) -> None:
    for tool in OF_ONE_TASK:
        for wanted in (task_id, "x" * len(task_id)):
            assert complaint(await caller.use(tool, task_id=wanted)) == UNKNOWN


@requirement("X-12", "R-27", "F-056", "E-037")
@pytest.mark.parametrize("version", [OLD, VERSION])
async def test_the_ticket_of_another_session_looks_like_none(bench: Bench, version: str) -> None:
    async with served(bench.server) as place:
        caller, other = await place.http(version), await place.http(version)
        await _looks_unknown(other, await a_ticket(caller, "wait"))
        assert (await other.use("list_tasks"))["structuredContent"] == {"tasks": []}


@requirement("X-12", "R-27", "G-014")
async def test_the_ticket_of_another_user_looks_like_none(version: str) -> None:
    bench = guarded("wait", fallback_tools=True, task=PROMPTLY)
    async with served(bench.server) as place:
        ann, bob = await place.http(version, {}, token="ann"), await place.http(version, {}, token="bob")
        await _looks_unknown(bob, await a_ticket(ann, "wait"))


@requirement("X-12", "R-27", "E-042", "R-15")
async def test_a_ticket_whose_time_is_over_looks_like_none() -> None:
    bench = a_bench("wait", policy=Policy(retention=timedelta(milliseconds=1)))
    async with served(bench.server) as place:
        caller = await place.memory()
        created = await caller.ask("tools/call", name="wait", arguments={}, task={"ttl": 1})
        task_id = created["task"]["taskId"]
        async with asyncio.timeout(PATIENCE):
            while await place.engine.list():
                await place.engine.sweep()
        await _looks_unknown(caller, task_id)


@requirement("X-12", "X-01", "R-10")
async def test_a_ticket_is_a_task_to_clients_that_know_tasks(version: str) -> None:
    bench = guarded("wait", fallback_tools=True, task=PROMPTLY)
    async with served(bench.server) as place:
        caller = await place.http(version, {}, token="ann")
        task_id = await a_ticket(caller, "wait")
        older, newer = await place.http(token="ann"), await place.http(NEW, WITH_TASKS, token="ann")
        assert (await older.get(task_id))["status"] == (await newer.get(task_id))["status"] == "working"
        collecting = older.collecting(task_id)
        bench.go.set()
        assert text_of((await collecting.answer())["result"]) == "waited"
        assert text_of(await caller.use("get_task", task_id=task_id)) == "waited"


@requirement("X-12", "X-01")
async def test_a_task_of_another_is_a_ticket_to_clients_that_know_none(version: str) -> None:
    bench = a_bench("wait")
    async with served(bench.server) as place:
        task_id = await _handed_in(place)
        caller = await place.memory(version)
        assert ticket(await caller.use("get_task", task_id=task_id))["status"] == "working"
        bench.go.set()
        assert text_of(await caller.use("wait_task", task_id=task_id)) == "waited"


async def _handed_in(place: Place) -> str:
    return await (await place.memory()).hand_in("wait")


# What they refuse


@requirement("X-12", "T-02")
@pytest.mark.parametrize("arguments", [{}, {"task_id": 7}, {"task_id": None}], ids=str)
async def test_a_ticket_is_needed(bench: Bench, arguments: dict[str, Any]) -> None:
    async with served(bench.server) as place:
        caller = await place.memory()
        for tool in OF_ONE_TASK:
            assert "task_id" in complaint(await caller.use(tool, **arguments))


@requirement("X-12")
async def test_a_wait_that_is_none_is_refused(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory()
        task_id = await a_ticket(caller, "wait")
        assert "seconds" in complaint(await caller.use("wait_task", task_id=task_id, seconds=-1))
