"""Signs of life for those who wait: progress they did not get from the tool, so that nobody gives up on it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coatcheck.server import TaskPolicy, TaskServer
from tests.matrix.peers import PATIENCE, Pending
from tests.requirements.marks import requirement
from tests.taskless.tickets import PROMPTLY, a_bench, a_ticket, ticket
from tests.v2025.bench import Asker, Bench
from tests.v2025.wire import NEW, PROGRESS, VERSION, Talk, Transport, served, text_of

pytestmark = pytest.mark.anyio

BEAT = 0.02


@pytest.fixture
def bench() -> Bench:
    return a_bench("wait", heartbeat=BEAT)


def calling(caller: Talk, tool: str = "wait", token: Any = "a", **arguments: Any) -> Pending:
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    return caller.begin("tools/call", {"name": tool, "arguments": arguments, **meta})


async def beats(caller: Talk, count: int) -> None:
    """Wait until so many have been heard in all."""
    async with asyncio.timeout(PATIENCE):
        while (heard := len(caller.all_told(PROGRESS))) < count:
            await caller.until(lambda _, heard=heard: len(caller.all_told(PROGRESS)) > heard)


def values(caller: Talk) -> list[float]:
    return [heard.params["progress"] for heard in caller.all_told(PROGRESS)]


@requirement("X-13")
@pytest.mark.parametrize("transport", ["memory", "sse"])
async def test_a_slow_call_gives_signs_of_life_that_rise(bench: Bench, transport: Transport, version: str) -> None:
    async with served(bench.server, transport) as place:
        caller = await place.connect(transport, version=version)
        call = calling(caller)
        await beats(caller, 4)
        bench.go.set()
        assert text_of((await call.answer())["result"]) == "waited"
    told = caller.all_told(PROGRESS)
    assert {heard.params["progressToken"] for heard in told} == {"a"}
    assert {heard.stream for heard in told} == {call.id if transport == "sse" else None}
    assert all(heard.params["message"].startswith("Still working") for heard in told)
    assert values(caller) == sorted(set(values(caller)))


@requirement("X-13")
@pytest.mark.parametrize("transport", ["memory", "sse"])
async def test_who_gave_no_token_gets_no_signs_of_life(bench: Bench, transport: Transport, version: str) -> None:
    async with served(bench.server, transport) as place:
        silent, other = await place.connect(transport, version=version), await place.memory()
        call, timer = calling(silent, token=None), calling(other)
        await beats(other, 3)
        bench.go.set()
        await call.answer()
        await timer.answer()
        assert silent.heard == []


@requirement("X-13")
async def test_progress_of_the_tool_comes_between_signs_of_life_and_the_values_still_rise(version: str) -> None:
    server, turns = TaskServer("test", store="memory://", heartbeat=BEAT, grace=0.01), asyncio.Queue[None]()

    @server.tool(task=True)
    async def count(ctx: Asker) -> str:
        for done in (1, 1, 0.5, 2):
            await turns.get()
            await ctx.report_progress(done, 2, f"at {done}")
        await turns.get()
        return "counted"

    async with served(server) as place:
        caller = await place.memory(version)
        call = calling(caller, "count")
        for number in range(5):
            await beats(caller, 1 + 2 * number)
            turns.put_nowait(None)
        assert text_of((await call.answer())["result"]) == "counted"
    assert values(caller) == sorted(set(values(caller)))
    said = [heard.params["message"] for heard in caller.all_told(PROGRESS)]
    assert [message for message in said if not message.startswith("Still")] == ["at 1", "at 1", "at 0.5", "at 2"]
    assert [int(value) for value in values(caller)][-1] == 2


@requirement("X-13")
async def test_a_tool_that_reports_often_needs_no_signs_of_life() -> None:
    server = TaskServer("test", store="memory://", heartbeat=3600)

    @server.tool(task=True)
    async def count(ctx: Asker) -> str:
        await ctx.report_progress(1, 1, "own")
        return "counted"

    async with served(server) as place:
        caller = await place.memory()
        await calling(caller, "count").answer()
    assert [heard.params["message"] for heard in caller.all_told(PROGRESS)] == ["own"]


@requirement("X-13", "X-12")
async def test_who_waits_with_a_ticket_gets_signs_of_life(version: str) -> None:
    bench = a_bench("wait", heartbeat=BEAT, task=PROMPTLY)
    async with served(bench.server) as place:
        caller = await place.memory(version)
        task_id = await a_ticket(caller, "wait")
        waiting = calling(caller, "wait_task", task_id=task_id)
        await beats(caller, 3)
        bench.go.set()
        assert text_of((await waiting.answer())["result"]) == "waited"
    assert values(caller) == sorted(set(values(caller)))


@requirement("X-13", "F-027")
@pytest.mark.parametrize("transport", ["memory", "sse"])
async def test_who_waits_for_the_result_of_a_task_gets_signs_of_life(bench: Bench, transport: Transport) -> None:
    async with served(bench.server, transport) as place:
        caller = await place.connect(transport)
        collecting = caller.collecting(await caller.hand_in("wait"), _meta={"progressToken": "r"})
        await beats(caller, 3)
        bench.go.set()
        assert text_of((await collecting.answer())["result"]) == "waited"
    assert {heard.params["progressToken"] for heard in caller.all_told(PROGRESS)} == {"r"}
    assert values(caller) == sorted(set(values(caller)))


@requirement("X-13")
async def test_no_sign_of_life_comes_after_the_answer(bench: Bench, version: str) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(version)
        call = calling(caller)
        await beats(caller, 2)
        bench.go.set()
        await call.answer()
        before, other = len(caller.all_told(PROGRESS)), await place.memory(VERSION)
        bench.go.clear()
        timer = calling(other)
        await beats(other, 3)
        bench.go.set()
        await timer.answer()
        assert len(caller.all_told(PROGRESS)) == before


@requirement("X-13", "X-11")
async def test_signs_of_life_go_on_while_a_person_thinks() -> None:
    bench = a_bench("ask", heartbeat=BEAT)
    async with served(bench.server) as place:
        caller = await place.memory()
        call = calling(caller, "ask")
        question = await caller.question()
        await beats(caller, 3)
        await caller.reply(question, {"action": "decline"})
        assert text_of((await call.answer())["result"]) == "decline"


@requirement("X-13", "X-11")
async def test_a_ticket_ends_the_signs_of_life(version: str) -> None:
    bench = a_bench("wait", heartbeat=0.005, task=TaskPolicy(promote_after=0.05))
    async with served(bench.server) as place:
        caller = await place.memory(version)
        call = calling(caller)
        ticket((await call.answer())["result"])
        assert len(call.heard_before) >= 1
        before = len(caller.all_told(PROGRESS))
        for _ in range(3):
            await caller.use("wait_task", task_id="none") if version != NEW else None
        assert len(caller.all_told(PROGRESS)) == before
