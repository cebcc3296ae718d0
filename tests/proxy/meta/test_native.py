"""In front of a server that has tasks itself: its tasks are followed, found again, cancelled, and ask by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.matrix.peers import PATIENCE
from tests.proxy.meta.talks import Meta, proxying
from tests.proxy.meta.upstreams import TaskUpstream

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["2025-11-25", "2026-07-28"])
async def native(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[TaskUpstream]:
    server = TaskUpstream("one", tmp_path, request.param)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def meta(native: TaskUpstream) -> AsyncGenerator[Meta]:
    async with proxying([native]) as place:
        meta = Meta(await place.memory())
        await meta.execute("echo", word="connected")
        yield meta


async def test_p_002_p_047_a_quick_call_is_answered_as_ever(meta: Meta) -> None:
    answer = await meta.execute("everything")
    assert [block["text"] for block in answer.raw["content"]] == ["plain", '{"json": ["as", "text"]}']
    assert answer.raw["_meta"] == {"example.com/mark": {"kept": True}}
    assert (await meta.use("list_tasks", include_completed=True)).said == {"tasks": []}


async def test_p_038_r_24_a_task_that_the_server_keeps_is_found_again(meta: Meta, native: TaskUpstream) -> None:
    task = await meta.task("work", name="kept")
    await native.moments.reached("kept")
    await native.stop()
    await meta.until("server_disconnected")
    assert (await meta.use("get_task", task_id=task)).said["task"]["status"] == "working"
    await native.start()
    await meta.until("server_reconnected")
    native.moments.open("kept")
    assert (await meta.use("get_task_result", task_id=task)).own == ["kept is done"]
    assert "task_failed" not in {event["type"] for event in meta.told}


async def test_p_015_r_24_a_question_of_such_a_task_can_be_answered_after_a_reconnect(
    meta: Meta, native: TaskUpstream
) -> None:
    task = await meta.task("ask", questions=["who?"])
    question = await meta.question()
    await native.stop()
    await native.start()
    asked = (await meta.use("get_elicitations")).said["elicitations"]
    assert [each["requestId"] for each in asked] == [question]
    await meta.use("respond_to_elicitation", request_id=question, action="accept", content={"value": "Ada"})
    assert (await meta.use("get_task_result", task_id=task)).own == ["Ada"]


async def test_p_037_it_may_ask_again_and_again(meta: Meta) -> None:
    task = await meta.task("ask", questions=["a?", "b?", "c?"])
    for word in ("a?", "b?", "c?"):
        question = await meta.question(message=word)
        await meta.use("respond_to_elicitation", request_id=question, action="accept", content={"value": word})
    assert (await meta.use("get_task_result", task_id=task)).own == ["a? and b? and c?"]
    assert [event["type"] for event in meta.told].count("elicitation_request") == 3


async def test_p_034_it_may_ask_a_model(meta: Meta) -> None:
    task = await meta.task("sample")
    request = await meta.question("sampling_request")
    await meta.use("respond_to_sampling", request_id=request, content="Something", model="m")
    assert (await meta.use("get_task_result", task_id=task)).own == ["m said: Something"]


async def test_p_021_cancelling_reaches_a_server_with_tasks_however_early(meta: Meta, native: TaskUpstream) -> None:
    for number in range(10):
        task = await meta.task("work", name=f"n{number}")
        await native.moments.reached(f"n{number}")
        assert (await meta.use("cancel_task", task_id=task)).said["success"] is True
    for number in range(10):
        await native.moments.reached(f"n{number} stopped")


async def test_p_021_a_question_of_a_cancelled_task_is_gone(meta: Meta) -> None:
    task = await meta.task("ask", questions=["who?"])
    await meta.question()
    await meta.use("cancel_task", task_id=task)
    async with asyncio.timeout(PATIENCE):
        while (await meta.use("get_elicitations")).said["elicitations"]:
            await meta.use("await_activity", timeout_ms=100)


async def test_p_010_a_task_whose_time_is_up_is_cancelled_at_its_server(native: TaskUpstream) -> None:
    async with proxying([native], default_ttl=timedelta(seconds=2)) as place:
        meta = Meta(await place.memory())
        await meta.task("work", name="endless")
        await native.moments.reached("endless")
        await meta.until("task_expired")
        await native.moments.reached("endless stopped")


async def test_p_024_how_its_tasks_are_doing_is_no_news_of_its_own(meta: Meta, native: TaskUpstream) -> None:
    """What such a server says of its tasks is told as the proxy's own events, and not again as notifications."""
    await meta.settled(await meta.task("echo", word="x"))
    await meta.until("task_completed")
    await meta.caught_up()
    assert [event["type"] for event in meta.told] == ["server_connected", "task_created", "task_completed"]
    assert (await meta.use("get_notifications")).said["notifications"] == []


async def test_r_23_a_question_says_which_task_it_is_of(meta: Meta) -> None:
    tasks = [await meta.task("ask", questions=[word]) for word in ("a?", "b?")]
    for word in ("a?", "b?"):
        await meta.question(message=word)
    asked = (await meta.use("get_elicitations")).said["elicitations"]
    assert {each["message"]: each["taskId"] for each in asked} == dict(zip(("a?", "b?"), tasks, strict=True))
