"""A server that stops, and the next one on the same store: whoever waited is told, and nothing is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coatcheck.server import TaskPolicy
from tests.matrix.peers import PATIENCE
from tests.requirements.marks import requirement
from tests.v2025.bench import ANN, Bench, guarded
from tests.v2025.wire import NOT_FOUND, Talk, meta_of, related, served, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/tasks.db"


@requirement("R-25", "F-027")
async def test_who_waits_when_the_server_stops_is_told_to_come_again(caller: Talk, bench: Bench) -> None:
    collecting = caller.collecting(await caller.hand_in("wait"))
    await asyncio.wait_for(bench.begun.wait(), PATIENCE)
    await caller.ask("ping")
    bench.server.tasks.end_streams()
    error = (await collecting.answer())["error"]
    assert error["code"] == -32603
    assert "again" in error["message"]


@requirement("F-050", "F-068", "F-030", "R-25")
async def test_a_result_is_collected_from_the_next_server_on_the_same_file(url: str) -> None:
    async with served(guarded("add", "refuse", "complain", store=url).server) as place:
        caller = await place.http(token="ann")
        done, refused = await caller.hand_in("add", a=1), await caller.hand_in("refuse")
        before = [await caller.request("tasks/result", {"taskId": task_id}) for task_id in (done, refused)]
    async with served(guarded("add", "refuse", "complain", store=url).server) as place:
        caller = await place.http(token="ann")
        after = [await caller.request("tasks/result", {"taskId": task_id}) for task_id in (done, refused)]
        assert after == before
        assert len((await caller.ask("tasks/list"))["tasks"]) == 2


@requirement("F-048", "F-056", "R-10")
async def test_who_had_no_name_has_another_session_after_a_restart_and_cannot_reach_its_tasks(url: str) -> None:
    async with served(Bench("add", store=url).server) as place:
        caller = await place.http()
        task_id = await caller.hand_in("add", a=1)
        await caller.collect(task_id)
    async with served(Bench("add", store=url).server) as place:
        caller = await place.http()
        assert await caller.refusal("tasks/get", taskId=task_id) == NOT_FOUND


@requirement("R-10", "F-050")
async def test_where_sessions_do_not_count_an_id_is_enough_after_a_restart(url: str) -> None:
    async with served(Bench("add", store=url, bind_sessions=False).server) as place:
        caller = await place.http()
        task_id = await caller.hand_in("add", a=1)
        await caller.collect(task_id)
    async with served(Bench("add", store=url, bind_sessions=False).server) as place:
        caller = await place.http()
        assert text_of(await caller.collect(task_id)) == "2"


@requirement("E-024", "R-20", "F-050")
async def test_a_question_is_asked_by_the_next_server(url: str) -> None:
    def make() -> Bench:
        bench = guarded("add", store=url)
        bench.server.add_tool(bench.ask, "ask", task=TaskPolicy("optional", resumable=True))
        return bench

    async with served(make().server) as place:
        caller = await place.http(token="ann")
        task_id = await caller.hand_in("ask")
        await caller.told(task_id, "input_required")
    async with served(make().server) as place:
        caller = await place.http(token="ann")
        assert (await caller.get(task_id))["status"] == "input_required"
        collecting = caller.collecting(task_id)
        question = await caller.question()
        assert question.params["_meta"] == meta_of(question, task_id)
        await caller.reply(question, ANN)
        assert text_of((await collecting.answer())["result"]) == "Ann"


@requirement("E-055", "E-047")
async def test_work_that_cannot_be_resumed_has_failed_and_says_why(url: str) -> None:
    async with served(guarded("wait", store=url).server) as place:
        caller = await place.http(token="ann")
        task_id = await caller.hand_in("wait")
    async with served(guarded("wait", store=url).server) as place:
        caller = await place.http(token="ann")
        error = await caller.refusal("tasks/result", taskId=task_id)
        seen = await caller.get(task_id)
    assert (error["code"], error["data"]) == (-32603, {"_meta": related(task_id)})
    assert (seen["status"], seen["statusMessage"]) == ("failed", error["message"])
    assert seen["statusMessage"]


@requirement("F-048")
async def test_what_is_kept_in_memory_is_gone_after_a_restart() -> None:
    bench = Bench("add")
    async with served(bench.server) as place:
        caller = await place.memory()
        task_id = await caller.hand_in("add", a=1)
        await caller.collect(task_id)
    async with served(Bench("add").server) as place:
        assert await (await place.memory()).refusal("tasks/get", taskId=task_id) == NOT_FOUND
