"""One store, two generations: what is made over one is seen, answered and cancelled over the other, in its words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.matrix.peers import PATIENCE
from tests.requirements.marks import requirement
from tests.v2025.bench import ANN, Bench, guarded
from tests.v2025.wire import INPUT_KEY, NEW, RELATED, WITH_TASKS, Talk, meta_of, related, served, text_of

pytestmark = pytest.mark.anyio

TOOLS = ("add", "wait", "ask", "complain", "refuse")
WHERE = ("memory", "http")


@pytest.fixture
def bench() -> Bench:
    return guarded(*TOOLS)


@asynccontextmanager
async def both(bench: Bench, where: str) -> AsyncGenerator[tuple[Talk, Talk]]:
    """Connect a client of each generation, the older first: of the same user, or in the same process."""
    async with served(bench.server) as place:
        if where == "memory":
            yield await place.memory(), await place.memory(NEW, WITH_TASKS)
        else:
            yield await place.http(token="ann"), await place.http(NEW, WITH_TASKS, token="ann")


async def made_newer(caller: Talk, tool: str, **arguments: Any) -> str:
    created = await caller.use(tool, **arguments)
    assert created["resultType"] == "task"
    return created["taskId"]


def same(older: dict[str, Any], newer: dict[str, Any]) -> bool:
    """Whether two looks at a task say the same of it."""
    names = {"ttl": "ttlMs", "pollInterval": "pollIntervalMs"}
    shared = ("taskId", "createdAt", "lastUpdatedAt", "ttl", "pollInterval")
    return [older[name] for name in shared] == [newer[names.get(name, name)] for name in shared]


# Made over 2025-11-25


@requirement("X-01", "E-058", "R-16")
@pytest.mark.parametrize("where", WHERE)
async def test_a_task_of_the_older_generation_is_seen_by_the_newer_in_its_own_words(bench: Bench, where: str) -> None:
    async with both(bench, where) as (older, newer):
        task_id = await older.hand_in("wait")
        seen, told = await newer.get(task_id), await older.get(task_id)
        assert same(told, seen)
        assert (seen["status"], seen["resultType"]) == ("working", "complete")
        assert not {"ttl", "pollInterval"} & seen.keys()


@requirement("X-01", "R-17")
@pytest.mark.parametrize("where", WHERE)
async def test_a_result_of_the_older_generation_is_collected_by_the_newer(bench: Bench, where: str) -> None:
    async with both(bench, where) as (older, newer):
        task_id = await older.hand_in("add", a=1)
        await older.collect(task_id)
        seen = await newer.get(task_id)
        assert seen["status"] == "completed"
        assert seen["result"]["structuredContent"] == {"result": 2}
        assert seen["result"]["resultType"] == "complete"
        assert RELATED not in str(seen)


@requirement("X-01", "R-20")
@pytest.mark.parametrize("where", WHERE)
async def test_a_question_of_the_older_generation_is_answered_by_the_newer(bench: Bench, where: str) -> None:
    async with both(bench, where) as (older, newer):
        task_id = await older.hand_in("ask")
        await older.told(task_id, "input_required")
        ((key, question),) = (await newer.get(task_id))["inputRequests"].items()
        assert question["params"]["message"] == "Who?"
        await newer.ask("tasks/update", taskId=task_id, inputResponses={key: ANN})
        assert text_of(await older.collect(task_id)) == "Ann"


@requirement("X-01", "R-04", "R-05")
@pytest.mark.parametrize("where", WHERE)
async def test_a_task_of_the_older_generation_is_cancelled_by_the_newer(bench: Bench, where: str) -> None:
    async with both(bench, where) as (older, newer):
        task_id = await older.hand_in("wait")
        collecting = older.collecting(task_id)
        await newer.ask("tasks/cancel", taskId=task_id)
        assert (await collecting.answer())["error"]["code"] == -32602
        assert (await older.get(task_id))["status"] == "cancelled"
        assert (await newer.get(task_id))["status"] == "cancelled"
        assert "error" not in await newer.request("tasks/cancel", {"taskId": task_id})
        assert (await older.refusal("tasks/cancel", taskId=task_id))["code"] == -32602


@requirement("X-01", "R-01", "F-041")
@pytest.mark.parametrize("where", WHERE)
async def test_an_error_a_tool_reports_is_failed_to_the_older_and_completed_to_the_newer(
    bench: Bench, where: str
) -> None:
    async with both(bench, where) as (older, newer):
        for task_id in (await older.hand_in("complain"), await made_newer(newer, "complain")):
            collected = await older.collect(task_id)
            told, seen = await older.get(task_id), await newer.get(task_id)
            assert (told["status"], told["statusMessage"]) == ("failed", "It is broken")
            assert (seen["status"], "error" in seen) == ("completed", False)
            assert seen["result"]["isError"] is True
            assert collected["content"] == seen["result"]["content"]
            assert collected["_meta"] == related(task_id)
            assert same(told, seen)


@requirement("X-01", "R-02", "F-042")
@pytest.mark.parametrize("where", WHERE)
async def test_a_protocol_error_is_the_same_to_both(bench: Bench, where: str) -> None:
    error: dict[str, Any] = {"code": -32050, "message": "Too fast", "data": {"retry": [1, None]}}
    async with both(bench, where) as (older, newer):
        for task_id in (await older.hand_in("refuse"), await made_newer(newer, "refuse")):
            refused = await older.refusal("tasks/result", taskId=task_id)
            told, seen = await older.get(task_id), await newer.get(task_id)
            assert refused == {**error, "data": {**error["data"], "_meta": related(task_id)}}
            assert seen["error"] == error
            assert told["status"] == seen["status"] == "failed"
            assert told["statusMessage"] == seen["statusMessage"] == "Too fast"


# Made over 2026-07-28


@requirement("X-01", "E-058", "G-010")
@pytest.mark.parametrize("where", WHERE)
async def test_a_task_of_the_newer_generation_is_seen_and_listed_by_the_older(bench: Bench, where: str) -> None:
    async with both(bench, where) as (older, newer):
        task_id = await made_newer(newer, "wait")
        told = await older.get(task_id)
        assert same(told, await newer.get(task_id))
        assert told["status"] == "working"
        assert await older.ask("tasks/list") == {"tasks": [told]}


@requirement("X-01", "F-027", "F-029")
@pytest.mark.parametrize("where", WHERE)
async def test_a_result_of_the_newer_generation_is_waited_for_by_the_older(bench: Bench, where: str) -> None:
    async with both(bench, where) as (older, newer):
        task_id = await made_newer(newer, "wait")
        collecting = older.collecting(task_id)
        await asyncio.wait_for(bench.begun.wait(), PATIENCE)
        bench.go.set()
        result = (await collecting.answer())["result"]
        assert (text_of(result), result["_meta"]) == ("waited", related(task_id))
        assert "resultType" not in result


@requirement("X-01", "R-20", "E-026")
@pytest.mark.parametrize("where", WHERE)
async def test_a_question_of_the_newer_generation_is_put_to_the_older(bench: Bench, where: str) -> None:
    async with both(bench, where) as (older, newer):
        task_id = await made_newer(newer, "ask")
        collecting = older.collecting(task_id)
        question = await older.question()
        assert question.params["_meta"] == meta_of(question, task_id)
        await older.reply(question, ANN)
        await collecting.answer()
        assert (await newer.get(task_id))["result"]["content"][0]["text"] == "Ann"


@requirement("X-01", "R-20")
@pytest.mark.parametrize("where", WHERE)
async def test_a_question_has_one_name_in_both(bench: Bench, where: str) -> None:
    async with both(bench, where) as (older, newer):
        task_id = await older.hand_in("ask")
        collecting = older.collecting(task_id)
        question = await older.question()
        assert [*(await newer.get(task_id))["inputRequests"]] == [question.params["_meta"][INPUT_KEY]]
        await older.reply(question, ANN)
        await collecting.answer()


@requirement("X-01", "R-05")
@pytest.mark.parametrize("where", WHERE)
async def test_a_task_of_the_newer_generation_is_cancelled_by_the_older(bench: Bench, where: str) -> None:
    async with both(bench, where) as (older, newer):
        task_id = await made_newer(newer, "wait")
        assert (await older.ask("tasks/cancel", taskId=task_id))["status"] == "cancelled"
        assert (await newer.get(task_id))["status"] == "cancelled"


@requirement("X-01", "R-18")
async def test_a_listener_of_the_newer_generation_hears_of_a_task_of_the_older(bench: Bench) -> None:
    async with both(bench, "http") as (older, newer):
        task_id = await older.hand_in("wait")
        newer.begin("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
        await newer.until(lambda heard: heard.params.get("status") == "working")
        bench.go.set()
        told = await newer.until(lambda heard: heard.params.get("status") == "completed")
        assert told.method == "notifications/tasks"
        assert told.params["result"]["content"][0]["text"] == "waited"


@requirement("X-01", "R-10", "R-27")
async def test_another_user_reaches_neither(bench: Bench) -> None:
    async with both(bench, "http") as (older, newer), served(bench.server) as place:
        ids = [await older.hand_in("wait"), await made_newer(newer, "wait")]
        one, other = await place.http(token="bob"), await place.http(NEW, WITH_TASKS, token="bob")
        for task_id in ids:
            assert (await one.refusal("tasks/get", taskId=task_id))["code"] == -32602
            assert (await other.refusal("tasks/get", taskId=task_id))["code"] == -32602
