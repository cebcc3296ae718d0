"""The tools for tasks: what they show, how long they wait, and what becomes of tasks in the end."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from coatcheck.policy import Policy
from tests.matrix.peers import PATIENCE
from tests.proxy.meta.talks import Meta, proxying
from tests.proxy.meta.upstreams import Upstream
from tests.v2025.wire import Place

pytestmark = pytest.mark.anyio

SHORT = timedelta(seconds=0.15)
"""Too short for what never ends."""
LONG_ENOUGH = timedelta(seconds=2)
"""For what ends at once, on however busy a machine."""
RECORD = {"task_id", "status", "created_at", "last_updated_at", "server", "tool", "args", "ttl"}


async def _listed(meta: Meta, **filters: Any) -> list[str]:
    return [task["task_id"] for task in (await meta.use("list_tasks", **filters)).said["tasks"]]


async def _until_gone(meta: Meta, task_id: str) -> None:
    """Wait until nothing is known of a task any more."""
    async with asyncio.timeout(PATIENCE):
        while "task" in (answer := await meta.use("get_task", task_id=task_id)).said:
            await meta.use("await_activity", timeout_ms=100)
    assert answer.error["code"] == "TOOL_ERR_TASK_NOT_FOUND"


async def test_p_008_a_task_is_shown_with_all_that_is_known_of_it(meta: Meta, one: Upstream) -> None:
    task = await meta.task("work", name="shown")
    shown = (await meta.use("get_task", task_id=task)).said["task"]
    assert set(shown) == RECORD
    assert {"task_id": task, "status": "working", "server": "one", "tool": "work"}.items() <= shown.items()
    assert shown["args"] == {"name": "shown"}
    assert shown["ttl"] == 300_000
    assert shown["created_at"] <= shown["last_updated_at"]
    assert shown["created_at"].endswith("Z")
    one.moments.open("shown")
    ended = await meta.settled(task)
    assert ended["last_updated_at"] > ended["created_at"]
    assert (await meta.use("get_task_result", task_id=task)).own == ["shown is done"]


async def test_p_008_a_message_and_an_error_are_shown_if_there_are_any(meta: Meta, one: Upstream) -> None:
    reporting = await meta.task("report", name="told")
    failing = await meta.task("refuse_late", name="failing")
    one.moments.open("failing")
    assert {"status": "failed", "error": "It is refused"}.items() <= (await meta.settled(failing)).items()
    await one.moments.reached("told")
    async with asyncio.timeout(PATIENCE):
        while "status_message" not in (shown := (await meta.use("get_task", task_id=reporting)).said["task"]):
            await meta.use("await_activity", timeout_ms=100)
    assert "half of it" in shown["status_message"]


@pytest.mark.parametrize(
    ("tool", "status"), [("work", "completed"), ("fail", "completed"), ("refuse", "failed"), ("ask", "cancelled")]
)
async def test_p_009_p_010_a_task_ends_once_and_for_all(meta: Meta, one: Upstream, tool: str, status: str) -> None:
    args: dict[str, Any] = {"work": {"name": "x"}, "ask": {"questions": ["?"]}}.get(tool, {})
    task = await meta.task(tool, **args)
    one.moments.open("x")
    if tool == "ask":
        await meta.use("cancel_task", task_id=task)
    assert (await meta.settled(task))["status"] == status
    assert (await meta.use("cancel_task", task_id=task)).said["success"] is False
    assert (await meta.use("get_task", task_id=task)).said["task"]["status"] == status
    await meta.caught_up()
    assert [event["type"] for event in meta.told if event["data"].get("taskId") == task] == [
        "task_created",
        f"task_{status}",
    ]


async def test_p_010_p_020_a_task_whose_time_is_up_has_expired(one: Upstream) -> None:
    async with proxying([one], default_ttl=LONG_ENOUGH) as place:
        meta = Meta(await place.memory())
        task = await meta.task("work", name="endless")
        await one.moments.reached("endless")
        assert (await meta.until("task_expired"))["data"]["taskId"] == task
        shown = (await meta.use("get_task", task_id=task)).said["task"]
        assert (shown["status"], shown["ttl"]) == ("expired", 2_000)
        refused = await meta.use("get_task_result", task_id=task)
        assert refused.error["code"] == "TOOL_ERR_TASK_EXPIRED"
        assert await _listed(meta, status="expired") == [task]
        await one.moments.reached("endless stopped")


async def test_p_011_what_has_ended_is_kept_for_a_while_and_then_forgotten(one: Upstream) -> None:
    async with proxying([one], default_ttl=LONG_ENOUGH, retention=SHORT) as place:
        meta = Meta(await place.memory())
        await meta.execute("echo", word="connected")
        tasks = [await meta.task("echo", word="kept"), await meta.task("refuse"), await meta.task("work", name="x")]
        await meta.use("cancel_task", task_id=tasks[-1])
        assert [(await meta.settled(task))["status"] for task in tasks] == ["completed", "failed", "cancelled"]
        for task in tasks:
            await _until_gone(meta, task)
        assert await _listed(meta, include_completed=True) == []


async def test_p_011_why_a_task_expired_is_told_for_a_while(one: Upstream) -> None:
    async with proxying([one], default_ttl=SHORT, retention=SHORT) as place:
        meta = Meta(await place.memory())
        task = await meta.task("work", name="endless")
        await meta.until("task_expired")
        assert "0.15 seconds" in (await meta.use("get_task", task_id=task)).said["task"]["error"]
        await _until_gone(meta, task)


async def test_p_017_only_tasks_at_work_are_listed_unless_asked_otherwise(one: Upstream, two: Upstream) -> None:
    async with proxying([one, two]) as place:
        meta = Meta(await place.memory())
        ended = await meta.task("echo", word="ended")
        await meta.settled(ended)
        here = await meta.task("work", name="here")
        there = await meta.task("work", server="two", name="there")
        assert set(await _listed(meta)) == {here, there}
        assert set(await _listed(meta, include_completed=True)) == {here, there, ended}
        assert await _listed(meta, server="two") == [there]
        assert set(await _listed(meta, server="one", include_completed=True)) == {here, ended}
        assert await _listed(meta, status="completed") == [ended]
        assert await _listed(meta, status="working", server="one") == [here]
        assert await _listed(meta, status="failed") == []
        assert all(set(task) == RECORD for task in (await meta.use("list_tasks")).said["tasks"])


async def test_p_017_the_filters_stand_in_the_schema(meta: Meta) -> None:
    schema = (await meta.talk.tools())["list_tasks"]["inputSchema"]
    assert set(schema["properties"]) == {"server", "status", "include_completed"}
    assert "required" not in schema
    assert schema["properties"]["include_completed"]["default"] is False
    (choices,) = [each["enum"] for each in schema["properties"]["status"]["anyOf"] if "enum" in each]
    assert choices == ["working", "completed", "failed", "cancelled", "expired"]


async def test_p_018_a_task_comes_with_all_that_its_server_asks(one: Upstream, two: Upstream) -> None:
    async with proxying([one, two]) as place:
        meta = Meta(await place.memory())
        task = await meta.task("work", name="bystander")
        await meta.task("ask", questions=["here?"])
        await meta.task("ask", server="two", questions=["elsewhere?"])
        question = await meta.question(message="here?")
        await meta.question(message="elsewhere?")
        answer = await meta.use("get_task", task_id=task)
        assert set(answer.said) == {"task", "pending_elicitations_for_server"}
        asked = [{"requestId": question, "server": "one", "message": "here?"}]
        assert answer.said["pending_elicitations_for_server"] == asked


async def test_p_019_whoever_wants_the_result_waits_for_it(meta: Meta, one: Upstream) -> None:
    task = await meta.task("work", name="awaited")
    waiters = [meta.begin("get_task_result", task_id=task) for _ in range(3)]
    await meta.use("get_task", task_id=task)
    assert not any(waiter.is_answered for waiter in waiters)
    one.moments.open("awaited")
    assert [(await meta.answer(waiter)).own for waiter in waiters] == [["awaited is done"]] * 3
    assert (await meta.use("get_task_result", task_id=task)).own == ["awaited is done"]


async def test_p_019_nobody_waits_longer_than_it_wants_to(meta: Meta) -> None:
    task = await meta.task("work", name="endless")
    for timeout in (0, 1):
        refused = await meta.use("get_task_result", task_id=task, timeout_ms=timeout)
        assert refused.error["code"] == "TOOL_ERR_TIMEOUT"
    assert (await meta.use("get_task", task_id=task)).said["task"]["status"] == "working"


async def test_p_019_without_a_timeout_it_is_waited_as_long_as_the_task_lives(one: Upstream) -> None:
    async with proxying([one], default_ttl=SHORT) as place:
        meta = Meta(await place.memory())
        task = await meta.task("work", name="endless")
        refused = await meta.use("get_task_result", task_id=task)
        assert refused.error["code"] == "TOOL_ERR_TASK_EXPIRED"


@pytest.mark.parametrize("tool", ["refuse", "fail", "ask"])
async def test_p_019_what_went_wrong_is_told_as_it_went_wrong(meta: Meta, tool: str) -> None:
    args: dict[str, Any] = {"questions": ["?"]} if tool == "ask" else {}
    task = await meta.task(tool, **args)
    if tool == "ask":
        await meta.use("cancel_task", task_id=task)
    await meta.settled(task)
    answer = await meta.use("get_task_result", task_id=task)
    if tool == "fail":
        assert answer.raw["isError"] is True
        assert answer.own == ["It went wrong"]
    elif tool == "ask":
        assert answer.error["code"] == "TOOL_ERR_TASK_CANCELLED"
    else:
        assert answer.error == {
            "code": "TOOL_ERR_TASK_FAILED",
            "message": "It is refused",
            "cause": "TOOL_ERR_UPSTREAM",
            "jsonrpc_code": -32050,
            "data": {"why": ["it was made so"]},
        }


async def test_p_021_cancelling_reaches_the_server(meta: Meta, one: Upstream) -> None:
    task = await meta.task("work", name="unwanted")
    await one.moments.reached("unwanted")
    answer = await meta.use("cancel_task", task_id=task)
    assert answer.said == {"success": True, "message": f"Task {task} was cancelled."}
    await one.moments.reached("unwanted stopped")
    assert (await meta.until("task_cancelled"))["data"]["taskId"] == task


async def test_p_021_what_has_ended_cannot_be_cancelled(meta: Meta) -> None:
    task = await meta.task("echo", word="done")
    await meta.settled(task)
    answer = await meta.use("cancel_task", task_id=task)
    assert answer.said == {"success": False, "message": f"Task {task} is already completed."}
    assert (await meta.use("get_task_result", task_id=task)).own == ["done"]


async def test_p_021_a_question_of_a_cancelled_task_is_asked_no_more(meta: Meta) -> None:
    task = await meta.task("ask", questions=["who?"])
    question = await meta.question()
    await meta.use("cancel_task", task_id=task)
    async with asyncio.timeout(PATIENCE):
        while (await meta.use("get_elicitations")).said["elicitations"]:
            await meta.use("await_activity", timeout_ms=100)
    refused = await meta.use("respond_to_elicitation", request_id=question, action="decline")
    assert refused.error["code"] == "TOOL_ERR_REQUEST_NOT_FOUND"


async def test_p_040_p_041_a_task_does_not_live_longer_than_the_longest(one: Upstream) -> None:
    async with proxying([one], max_ttl=SHORT) as place:
        meta = Meta(await place.memory())
        task = await meta.task("work", name="endless")
        assert (await meta.use("get_task", task_id=task)).said["task"]["ttl"] == 150
        await meta.until("task_expired")


async def test_p_042_what_is_over_is_cleared_away_within_a_minute(place: Place) -> None:
    sweeps_every = place.engine.policy.lease / 4
    assert place.engine.policy.lease == Policy().lease
    assert sweeps_every <= timedelta(seconds=60)


async def test_p_042_rows_do_not_outlive_their_tasks(one: Upstream) -> None:
    async with proxying([one], default_ttl=SHORT, retention=SHORT) as place:
        meta = Meta(await place.memory())
        task = await meta.task("echo", word="gone")
        await _until_gone(meta, task)
        await place.engine.sweep()
        assert task not in {row.id for row in await place.engine.list_all()}


async def test_p_045_requests_and_events_have_ids_in_order_and_tasks_have_ids_nobody_guesses(meta: Meta) -> None:
    """Whoever has a task's id may have the task, so it has 128 random bits and more, and tells nothing of the time."""
    tasks = [await meta.task("ask", questions=[word]) for word in "ab"]
    requests = [await meta.question(message=word) for word in "ab"]
    events = [event["id"] for event in meta.told]
    assert {len(each) for each in (*requests, *events)} == {26}
    assert events == sorted(events)
    assert all(len(task) * 6 >= 128 + 64 for task in tasks)
    assert not any(len(task) == 26 for task in tasks)


async def test_p_053_an_id_of_no_task_is_refused_whatever_it_is(meta: Meta) -> None:
    for task_id in ("", "none", "x" * 5000, "../../etc", "\0", "ü"):
        for tool in ("get_task", "get_task_result", "cancel_task"):
            assert (await meta.use(tool, task_id=task_id)).error["code"] == "TOOL_ERR_TASK_NOT_FOUND"
