"""What a client is told of its tasks without asking: their status, and their progress as long as they live."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from coatcheck import Policy
from coatcheck.server import TaskContext, TaskServer
from tests.matrix.peers import PATIENCE
from tests.requirements.marks import requirement
from tests.v2025.bench import ANN, Asker, Bench
from tests.v2025.wire import PROGRESS, RELATED, STATUS, TOLD_PROGRESS, Talk, Transport, related, served

pytestmark = pytest.mark.anyio

OFTEN = Policy(note_interval=timedelta(microseconds=1))


@pytest.fixture
def bench() -> Bench:
    return Bench("add", "wait", "ask", "complain", "refuse", policy=OFTEN)


async def followed(caller: Talk, tool: str, end: str, token: Any = None, **arguments: Any) -> str:
    """Hand a call in, wait until its end is told, and return the task's id."""
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    created = await caller.ask("tools/call", name=tool, arguments=arguments, task={}, **meta)
    task_id = created["task"]["taskId"]
    await caller.told(task_id, end)
    await caller.ask("ping")
    return task_id


# Status


@requirement("F-044", "F-045", "R-26", "R-18", "E-001")
async def test_a_new_task_is_told_before_it_is_answered_on_the_stream_of_the_answer(
    caller: Talk, transport: Transport
) -> None:
    call = caller.begin("tools/call", {"name": "wait", "arguments": {}, "task": {}})
    created = (await call.answer())["result"]
    told = await caller.told(created["task"]["taskId"], "working")
    assert told == created["task"]
    if transport != "json":  # there the answer is no stream, and who knows which of two arrives first
        (first,) = call.heard_before
        assert first.params == told
        assert first.stream == (call.id if transport == "sse" else None)


@requirement("F-044", "F-046", "R-26", "F-047")
@pytest.mark.parametrize(("tool", "end"), [("add", "completed"), ("complain", "failed"), ("refuse", "failed")])
async def test_the_end_of_a_task_is_told_once_as_a_look_shows_it(memory: Talk, tool: str, end: str) -> None:
    task_id = await followed(memory, tool, end, **({"a": 1} if tool == "add" else {}))
    last = [heard.params for heard in memory.all_told(STATUS) if heard.params["status"] == end]
    assert last == [await memory.get(task_id)]


@requirement("F-046", "R-26")
async def test_a_cancellation_is_told(caller: Talk) -> None:
    task_id = await caller.hand_in("wait")
    cancelled = await caller.ask("tasks/cancel", taskId=task_id)
    assert await caller.told(task_id, "cancelled") == cancelled


@requirement("F-044", "R-26", "F-039", "E-024")
async def test_every_transition_is_told(caller: Talk, transport: Transport) -> None:
    caller.answers["elicitation/create"] = ANN
    task_id = await caller.hand_in("ask")
    asking = await caller.told(task_id, "input_required")
    assert asking["statusMessage"] == "Waiting for an answer"
    await caller.collect(task_id)
    done = await caller.told(task_id, "completed")
    assert done == await caller.get(task_id)
    told = [heard for heard in caller.all_told(STATUS) if heard.params["status"] != "working"]
    assert [heard.stream for heard in told] == [None, None], "they come on the standing stream"


@requirement("E-022", "R-26", "R-19")
async def test_what_the_work_says_is_told(caller: Talk, bench: Bench) -> None:
    @bench.server.tool(task=True)
    async def talk(task: TaskContext) -> None:
        await task.note("Warming up")
        await task.flush()
        await bench.go.wait()
        await task.progress(2, 5, "Copying")
        await task.flush()
        await bench.stopped.wait()

    task_id = await caller.hand_in("talk")
    await caller.until(lambda heard: heard.params.get("statusMessage") == "Warming up")
    bench.go.set()
    told = await caller.until(lambda heard: heard.params.get("statusMessage") == "Copying (2 of 5)")
    assert told.params == await caller.get(task_id)
    bench.stopped.set()


@requirement("R-19", "E-022")
async def test_progress_is_told_in_numbers_as_a_look_shows_it(caller: Talk, bench: Bench) -> None:
    @bench.server.tool(task=True)
    async def copy(task: TaskContext) -> None:
        await task.progress(2, 5, "Copying")
        await task.flush()
        await bench.go.wait()

    task_id = await caller.hand_in("copy")
    told = await caller.until(lambda heard: heard.params.get("statusMessage") == "Copying (2 of 5)")
    assert told.params["_meta"] == {TOLD_PROGRESS: {"progress": 2, "total": 5}}
    assert told.params == await caller.get(task_id)
    bench.go.set()


@requirement("R-19")
async def test_a_finished_task_does_not_tell_how_far_it_was(memory: Talk, bench: Bench) -> None:
    task_id = await reported(memory, bench, [(1, 2)])
    assert "_meta" not in await memory.told(task_id, "completed")
    assert "_meta" not in await memory.get(task_id)


@requirement("R-26")
async def test_what_changes_faster_than_it_is_written_is_told_in_part() -> None:
    server = TaskServer("test", store="memory://", policy=Policy(note_interval=timedelta(seconds=60)))

    @server.tool(task=True)
    async def hurry(task: TaskContext) -> None:
        for number in range(200):
            await task.progress(number, 200, f"Number {number}")

    async with served(server) as place:
        caller = await place.memory()
        await followed(caller, "hurry", "completed", token=1)
    assert len(caller.all_told(STATUS)) <= 4
    assert len(caller.all_told(PROGRESS)) <= 2


@requirement("G-007", "F-044", "R-16", "R-17")
async def test_a_status_carries_the_whole_task_and_nothing_else(caller: Talk) -> None:
    await followed(caller, "complain", "failed")
    fields = {"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"}
    for heard in caller.all_told(STATUS):
        assert fields <= heard.params.keys() <= fields | {"statusMessage"}
        assert RELATED not in str(heard.message)


@requirement("R-26")
async def test_times_of_change_rise_from_one_status_to_the_next(memory: Talk) -> None:
    memory.answers["elicitation/create"] = ANN
    task_id = await memory.hand_in("ask")
    await memory.collect(task_id)
    await memory.told(task_id, "completed")
    changed = [heard.params["lastUpdatedAt"] for heard in memory.all_told(STATUS)]
    assert changed == sorted(set(changed))


@requirement("F-047", "R-18")
async def test_who_made_no_task_is_told_of_none(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller, other = await place.memory(), await place.memory()
        await followed(caller, "add", "completed", a=1)
        await other.use("add", a=1)
        await other.ask("ping")
        assert other.heard == []


@requirement("F-047")
async def test_a_client_without_a_standing_stream_can_do_with_looking(bench: Bench) -> None:
    async with served(bench.server, "json") as place:
        caller = await place.http(stands=False)
        task_id = await caller.hand_in("add", a=1)
        await caller.collect(task_id)
        assert (await caller.get(task_id))["status"] == "completed"
        assert caller.heard == []


# Progress


Value = tuple[float, float | None]


async def reported(caller: Talk, bench: Bench, values: list[Value], token: Any = None) -> str:
    """Let a task report these through the SDK, each once the last was told; return the task's id."""
    turns: asyncio.Queue[None] = asyncio.Queue()

    async def report(ctx: Asker, task: TaskContext) -> str:
        for number, (done, total) in enumerate(values):
            await ctx.report_progress(done, total, f"number {number}")
            await task.flush()
            await turns.get()
        return "reported"

    bench.server.add_tool(report, task=True)
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    created = await caller.ask("tools/call", name="report", arguments={}, task={}, **meta)
    for number in range(len(values)):
        said = f"number {number} "
        await caller.until(lambda heard, said=said: heard.params.get("statusMessage", "").startswith(said))
        turns.put_nowait(None)
    await caller.told(created["task"]["taskId"], "completed")
    return created["task"]["taskId"]


def progress_of(caller: Talk) -> list[float]:
    return [heard.params["progress"] for heard in caller.all_told(PROGRESS)]


@requirement("G-008", "G-007", "E-057", "E-022", "R-19", "E-021")
async def test_a_token_is_good_as_long_as_the_task_lives(caller: Talk, bench: Bench) -> None:
    task_id = await reported(caller, bench, [(1, 4), (2.5, 4), (4, None)], token="a")
    told = [heard.params for heard in caller.all_told(PROGRESS)]
    assert [params["progressToken"] for params in told] == ["a"] * 3
    assert [params["_meta"] for params in told] == [related(task_id)] * 3
    assert [params["progress"] for params in told] == [1, 2.5, 4]
    assert [params.get("total") for params in told] == [4, 4, None]
    assert [params["message"] for params in told] == ["number 0", "number 1", "number 2"]
    assert [heard.stream for heard in caller.all_told(PROGRESS)] == [None] * 3, "they come on the standing stream"


@requirement("G-008")
@pytest.mark.parametrize("token", [7, 0, ""], ids=repr)
async def test_any_token_is_a_token(memory: Talk, bench: Bench, token: Any) -> None:
    await reported(memory, bench, [(1, 2)], token)
    assert [heard.params["progressToken"] for heard in memory.all_told(PROGRESS)] == [token]


@requirement("G-008")
async def test_without_a_token_there_is_no_progress(memory: Talk, bench: Bench) -> None:
    await reported(memory, bench, [(1, 2), (2, 2)])
    assert progress_of(memory) == []


@requirement("E-057", "G-008")
async def test_progress_that_runs_backwards_is_not_told(memory: Talk, bench: Bench) -> None:
    await reported(memory, bench, [(3, None), (1, None), (4, None)], token=1)
    assert progress_of(memory) == [3, 4]


@requirement("E-057", "G-008")
async def test_progress_rises_even_if_only_the_total_changes(memory: Talk, bench: Bench) -> None:
    await reported(memory, bench, [(1, 2), (1, 3), (2, 3)], token=1)
    assert progress_of(memory) == sorted(set(progress_of(memory)))


@requirement("G-009", "E-057")
async def test_there_is_no_progress_after_the_end(caller: Talk, bench: Bench) -> None:
    @bench.server.tool(task=True)
    async def race(ctx: Asker) -> None:
        bench.begun.set()
        try:
            await bench.go.wait()
        finally:
            await ctx.report_progress(9, 9)

    created = await caller.ask("tools/call", name="race", arguments={}, task={}, _meta={"progressToken": 1})
    task_id = created["task"]["taskId"]
    await asyncio.wait_for(bench.begun.wait(), PATIENCE)
    await caller.ask("tasks/cancel", taskId=task_id)
    await caller.told(task_id, "cancelled")
    await caller.ask("ping")
    methods = [heard.method for heard in caller.heard]
    assert methods[-1] == STATUS
    assert PROGRESS not in methods


@requirement("G-009", "E-057")
async def test_progress_of_the_last_moment_is_told_before_the_end_or_not_at_all(memory: Talk, bench: Bench) -> None:
    @bench.server.tool(task=True)
    async def sprint(ctx: Asker) -> None:
        await ctx.report_progress(1, 1)

    for token in range(5):
        await followed(memory, "sprint", "completed", token)
    ends = {heard.params["taskId"]: at for at, heard in enumerate(memory.heard) if heard.params.get("status")}
    for at, heard in enumerate(memory.heard):
        if heard.method == PROGRESS:
            assert at < ends[heard.params["_meta"][RELATED]["taskId"]]
