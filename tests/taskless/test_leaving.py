"""A caller without tasks that gives up, loses its connection, or comes back after a restart: its work goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coatcheck.server import TaskPolicy
from tests.matrix.peers import PATIENCE, Pending
from tests.requirements.marks import requirement
from tests.taskless.tickets import PROMPTLY, a_bench, a_ticket, complaint, ticket
from tests.v2025.bench import Asker, Bench, guarded
from tests.v2025.wire import NEW, OLD, VERSION, Talk, Transport, served, text_of

pytestmark = pytest.mark.anyio

CANCELS = TaskPolicy(cancel_on_disconnect=True)


def calling(caller: Talk, tool: str = "wait") -> Pending:
    return caller.begin("tools/call", {"name": tool, "arguments": {}})


async def begun(bench: Bench) -> None:
    await asyncio.wait_for(bench.begun.wait(), PATIENCE)


async def stopped(bench: Bench) -> None:
    await asyncio.wait_for(bench.stopped.wait(), PATIENCE)


# Giving up


@requirement("X-11", "R-25")
@pytest.mark.parametrize("version", [OLD, VERSION])
async def test_work_goes_on_when_its_caller_cancels_the_call(transport: Transport, version: str) -> None:
    bench = a_bench("wait")
    async with served(bench.server, transport) as place:
        caller = await place.connect(transport, version=version)
        call = calling(caller)
        await begun(bench)
        await caller.cancel(call)
        (task,) = (await caller.use("list_tasks"))["structuredContent"]["tasks"]
        assert task["status"] == "working"
        bench.go.set()
        assert text_of(await caller.use("wait_task", task_id=task["taskId"])) == "waited"


@requirement("X-11", "R-25")
async def test_work_goes_on_when_its_caller_hangs_up(version: str) -> None:
    bench = a_bench("wait")
    async with served(bench.server) as place:
        caller = await place.http(version)
        call = calling(caller)
        await begun(bench)
        caller.drop(call)
        await caller.close()
        bench.go.set()
        await stopped(bench)
    assert bench.runs == ["waited"]


@requirement("X-11", "R-25")
async def test_an_author_may_have_work_stop_when_its_caller_cancels_the_call(transport: Transport) -> None:
    bench = a_bench("wait", task=CANCELS)
    async with served(bench.server, transport) as place:
        caller = await place.connect(transport, version=OLD)
        call = calling(caller)
        await begun(bench)
        await caller.cancel(call)
        await stopped(bench)
        (task,) = (await caller.use("list_tasks"))["structuredContent"]["tasks"]
        assert task["status"] == "cancelled"
    assert bench.runs == []


@requirement("X-11", "R-25")
async def test_an_author_may_have_work_stop_when_its_caller_hangs_up() -> None:
    bench = a_bench("wait", task=CANCELS, heartbeat=0.01)
    async with served(bench.server) as place:
        caller = await place.http(NEW)
        call = caller.begin("tools/call", {"name": "wait", "arguments": {}, "_meta": {"progressToken": 1}})
        await begun(bench)
        await caller.until(lambda heard: heard.stream == call.id)
        caller.drop(call)
        await stopped(bench)
    assert bench.runs == []


@requirement("X-11")
async def test_who_has_a_ticket_may_hang_up_whatever_the_author_wants(version: str) -> None:
    bench = a_bench("wait", task=TaskPolicy(promote_after=0.01, cancel_on_disconnect=True))
    async with served(bench.server) as place:
        caller = await place.memory(version)
        task_id = await a_ticket(caller, "wait")
        waiting = caller.begin("tools/call", {"name": "wait_task", "arguments": {"task_id": task_id}})
        other = await place.memory(version)
        assert ticket(await other.use("get_task", task_id=task_id))["status"] == "working"
        await caller.cancel(waiting)
        bench.go.set()
        assert text_of(await other.use("wait_task", task_id=task_id)) == "waited"


@requirement("X-11")
async def test_a_result_nobody_took_can_be_found() -> None:
    bench = a_bench("wait")
    async with served(bench.server) as place:
        caller = await place.http(OLD)
        call = calling(caller)
        await begun(bench)
        await caller.cancel(call)
        bench.go.set()
        await stopped(bench)
        (task,) = (await caller.use("list_tasks"))["structuredContent"]["tasks"]
        assert text_of(await caller.use("wait_task", task_id=task["taskId"])) == "waited"


@requirement("X-11", "R-05")
async def test_a_held_call_that_is_cancelled_elsewhere_is_answered(version: str) -> None:
    bench = a_bench("wait")
    async with served(bench.server) as place:
        caller, other = await place.memory(version), await place.memory(version)
        call = calling(caller)
        await begun(bench)
        (task,) = (await other.use("list_tasks"))["structuredContent"]["tasks"]
        await other.use("cancel_task", task_id=task["taskId"])
        answer = await call.answer()
    assert "cancelled" in str(answer)
    assert "error" in answer or answer["result"]["isError"] is True


# Coming back


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/tasks.db"


@requirement("X-12", "F-050", "R-25")
async def test_a_ticket_is_good_at_the_next_server_on_the_same_store(url: str, version: str) -> None:
    def make() -> Bench:
        return guarded("wait", store=url, fallback_tools=True, task=PROMPTLY)

    first = make()
    async with served(first.server) as place:
        caller = await place.http(version, {}, token="ann")
        task_id = await a_ticket(caller, "wait")
        first.go.set()
        assert text_of(await caller.use("wait_task", task_id=task_id)) == "waited"
    async with served(make().server) as place:
        caller = await place.http(version, {}, token="ann")
        assert text_of(await caller.use("get_task", task_id=task_id)) == "waited"
        listed = await caller.use("list_tasks")
        assert [task["taskId"] for task in listed["structuredContent"]["tasks"]] == [task_id]


@requirement("X-12", "X-11", "R-25")
async def test_work_that_can_be_resumed_is_finished_by_the_next_server(url: str, version: str) -> None:
    def make() -> Bench:
        bench = a_bench("plain", store=url, bind_sessions=False)
        bench.server.add_tool(bench.wait, task=TaskPolicy("optional", resumable=True))
        return bench

    first, second = make(), make()
    async with served(first.server) as place:
        caller = await place.http(version, {})
        call = calling(caller)
        await begun(first)
        first.server.tasks.end_streams()
        task_id = ticket((await call.answer())["result"])["taskId"]
    second.go.set()
    async with served(second.server) as place:
        caller = await place.http(version, {})
        assert text_of(await caller.use("wait_task", task_id=task_id)) == "waited"


@requirement("X-12", "E-055")
async def test_work_that_cannot_be_resumed_says_that_it_is_lost(url: str, version: str) -> None:
    async with served(a_bench("wait", store=url, bind_sessions=False, task=PROMPTLY).server) as place:
        task_id = await a_ticket(await place.http(version, {}), "wait")
    async with served(a_bench("wait", store=url, bind_sessions=False, task=PROMPTLY).server) as place:
        caller = await place.http(version, {})
        assert "failed" in complaint(await caller.use("wait_task", task_id=task_id))


@requirement("X-12", "R-20")
async def test_a_question_on_a_ticket_is_answered_at_the_next_server(url: str) -> None:
    def make() -> Bench:
        bench = a_bench("plain", store=url, bind_sessions=False)
        bench.server.add_tool(bench.ask, task=TaskPolicy("optional", resumable=True))
        return bench

    async with served(make().server) as place:
        task_id = ticket(await (await place.http(NEW, {})).use("ask"))["taskId"]
    async with served(make().server) as place:
        caller = await place.http(NEW, {})
        (question,) = ticket(await caller.use("get_task", task_id=task_id))["questions"]
        assert question["params"]["message"] == "Who?"
        await caller.use("answer_task", task_id=task_id, content={"name": "Ann"})
        assert text_of(await caller.use("wait_task", task_id=task_id)) == "Ann"


@requirement("X-11", "F-068")
async def test_a_call_is_held_while_another_server_does_the_work(url: str, version: str) -> None:
    worker = a_bench("wait", store=url, bind_sessions=False)
    front = a_bench("wait", store=url, bind_sessions=False, concurrency=0)
    async with served(worker.server), served(front.server) as place:
        caller = await place.http(version, {})
        call = calling(caller)
        await begun(worker)
        worker.go.set()
        assert text_of((await call.answer())["result"]) == "waited"
    assert (worker.runs, front.runs) == (["waited"], [])


@requirement("X-11", "X-13", "F-068")
async def test_progress_of_work_at_another_server_is_passed_on(url: str, version: str) -> None:
    def make(concurrency: int) -> Bench:
        bench = a_bench("plain", store=url, bind_sessions=False, concurrency=concurrency)

        @bench.server.tool(task=True)
        async def report(ctx: Asker) -> str:
            await ctx.report_progress(1, 2, "Half")
            await bench.go.wait()
            return "reported"

        return bench

    worker, front = make(1), make(0)
    async with served(worker.server), served(front.server) as place:
        caller = await place.http(version, {})
        call = caller.begin("tools/call", {"name": "report", "arguments": {}, "_meta": {"progressToken": "a"}})
        told = await caller.until(lambda heard: heard.stream == call.id)
        assert told.params == {"progressToken": "a", "progress": 1, "total": 2, "message": "Half"}
        worker.go.set()
        assert text_of((await call.answer())["result"]) == "reported"
