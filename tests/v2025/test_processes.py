"""One store, several servers: a task is made through one and waited for, answered and cancelled through another."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from coatcheck.server import TaskServer
from tests.matrix.peers import PATIENCE
from tests.requirements.marks import requirement
from tests.server import programs
from tests.v2025.bench import ANN, Bench, guarded
from tests.v2025.wire import OverHTTP, Talk, meta_of, on_stdio, related, served, text_of

pytestmark = pytest.mark.anyio

TOOLS = ("wait", "ask", "note")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/tasks.db"


# Two servers


@pytest.fixture
def bench(url: str) -> Bench:
    return guarded(*TOOLS, store=url)


@pytest.fixture
async def one(bench: Bench) -> AsyncGenerator[OverHTTP]:
    """A client of the server that does the work."""
    async with served(bench.server) as place:
        yield await place.http(token="ann")


@pytest.fixture
async def other(url: str) -> AsyncGenerator[OverHTTP]:
    """The same user, at a server that leaves the work to others."""
    async with served(guarded(*TOOLS, store=url, concurrency=0).server) as place:
        yield await place.http(token="ann")


@requirement("F-027", "F-068", "F-050")
async def test_a_result_is_waited_for_at_another_server(one: OverHTTP, other: OverHTTP, bench: Bench) -> None:
    task_id = await one.hand_in("wait")
    collecting = other.collecting(task_id)
    await asyncio.wait_for(bench.begun.wait(), PATIENCE)
    bench.go.set()
    result = (await collecting.answer())["result"]
    assert (text_of(result), result["_meta"]) == ("waited", related(task_id))


@requirement("R-20", "E-026", "F-068")
async def test_a_question_is_asked_at_the_server_where_somebody_waits(one: OverHTTP, other: OverHTTP) -> None:
    task_id = await one.hand_in("ask")
    collecting = other.collecting(task_id)
    await other.reply(await other.question(), ANN)
    assert text_of((await collecting.answer())["result"]) == "Ann"
    assert [heard for heard in one.heard if "id" in heard.message] == []


@requirement("F-035", "F-033", "F-034")
async def test_a_task_is_cancelled_at_another_server_and_its_work_stops(
    one: OverHTTP, other: OverHTTP, bench: Bench
) -> None:
    task_id = await one.hand_in("wait")
    await asyncio.wait_for(bench.begun.wait(), PATIENCE)
    await other.ask("tasks/cancel", taskId=task_id)
    await asyncio.wait_for(bench.stopped.wait(), PATIENCE)
    assert (await one.get(task_id))["status"] == "cancelled"
    assert bench.runs == []


@requirement("F-044", "F-046", "R-26")
async def test_whoever_made_a_task_is_told_of_it_wherever_it_runs(one: OverHTTP, other: OverHTTP, bench: Bench) -> None:
    task_id = await other.hand_in("note")
    await other.until(lambda heard: heard.params.get("statusMessage") == "Half done")
    bench.go.set()
    assert await other.told(task_id, "completed") == await one.get(task_id)


# Two processes


@pytest.fixture
async def elsewhere(url: str) -> AsyncGenerator[Talk]:
    """A client on stdio, of a server in a process of its own."""
    async with on_stdio(programs.serve, url) as caller:
        yield caller


@pytest.fixture
async def here(url: str) -> AsyncGenerator[Talk]:
    """A client in memory, of a server in this process that leaves the work to others."""
    server: TaskServer = programs.build(url, concurrency=0)
    async with served(server) as place:
        yield await place.memory()


@pytest.mark.slow
@requirement("F-027", "F-068")
async def test_a_result_is_waited_for_in_another_process(elsewhere: Talk, here: Talk) -> None:
    task_id = await elsewhere.hand_in("where")
    worker = (await here.collect(task_id))["structuredContent"]["result"]
    assert worker != os.getpid()
    assert (await elsewhere.collect(task_id))["structuredContent"]["result"] == worker


@pytest.mark.slow
@requirement("R-20", "E-026")
async def test_a_question_is_answered_in_another_process(elsewhere: Talk, here: Talk) -> None:
    task_id = await elsewhere.hand_in("ask")
    collecting = here.collecting(task_id)
    question = await here.question()
    assert question.params["_meta"] == meta_of(question, task_id)
    await here.reply(question, ANN)
    assert text_of((await collecting.answer())["result"]) == "Ann"
    assert (await elsewhere.get(task_id))["status"] == "completed"
