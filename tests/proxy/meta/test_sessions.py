"""Sessions: nobody sees another's, a client finds its own again, and those nobody uses are closed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from coatcheck.proxy.gateway import Gateway
from coatcheck.proxy.settings import ProxySettings
from coatcheck.task import Status
from tests.matrix.peers import PATIENCE
from tests.proxy.meta.talks import Meta, Returning, proxying
from tests.proxy.meta.upstreams import Upstream
from tests.v2025.wire import NEW, Place, served

pytestmark = pytest.mark.anyio

SHORT = timedelta(seconds=0.2)


@pytest.fixture
async def others(place: Place) -> list[Meta]:
    """Clients with a session of their own each."""
    return [Meta(await place.http()) for _ in range(2)]


async def test_p_051_no_session_sees_anothers_tasks(others: list[Meta], one: Upstream) -> None:
    mine, theirs = others
    task = await mine.task("work", name="mine")
    for tool in ("get_task", "get_task_result", "cancel_task"):
        assert (await theirs.use(tool, task_id=task)).error["code"] == "TOOL_ERR_TASK_NOT_FOUND"
    assert (await theirs.use("list_tasks", include_completed=True)).said == {"tasks": []}
    one.moments.open("mine")
    assert (await mine.use("get_task_result", task_id=task)).own == ["mine is done"]


async def test_p_051_no_session_sees_or_answers_what_another_is_asked(others: list[Meta], one: Upstream) -> None:
    mine, theirs = others
    task = await mine.task("ask", questions=["my name?"])
    question = await mine.question()
    await theirs.task("ask", questions=["their name?"])
    await theirs.question()
    asked = (await theirs.use("get_elicitations")).said["elicitations"]
    assert [each["message"] for each in asked] == ["their name?"]
    given = {"request_id": question, "action": "accept", "content": {"value": "not me"}}
    assert (await theirs.use("respond_to_elicitation", **given)).error["code"] == "TOOL_ERR_REQUEST_NOT_FOUND"
    await mine.use("respond_to_elicitation", request_id=question, action="accept", content={"value": "me"})
    assert (await mine.use("get_task_result", task_id=task)).own == ["me"]


async def test_p_051_no_session_hears_of_anothers_events_logs_or_timers(others: list[Meta], one: Upstream) -> None:
    mine, theirs = others
    await mine.execute("log", level="info", words=["of mine"])
    await mine.execute("tell", uri="memo://greeting")
    await mine.use("set_timer", duration_ms=60_000)
    await mine.settled(await mine.task("echo", word="x"))
    for tool, word in (("get_logs", "logs"), ("get_notifications", "notifications"), ("list_timers", "timers")):
        assert (await mine.use(tool)).said[word]
        assert (await theirs.use(tool)).said[word] == []
    assert theirs.told == []
    first = mine.told[0]["id"]
    assert (await theirs.use("await_activity", timeout_ms=100, last_event_id=first)).said["events"] == []


async def test_p_051_who_cannot_be_told_apart_is_shown_nothing_on_a_shared_proxy(one: Upstream) -> None:
    async with proxying([one], is_for_one=False) as place:
        nobody = Meta(await place.http(NEW))
        for tool, arguments in (("list_tasks", {}), ("execute_tool", {"server": "one", "tool": "echo"})):
            assert (await nobody.use(tool, **arguments)).error["code"] == "TOOL_ERR_NOT_ALLOWED"


async def test_p_039_a_client_that_comes_back_finds_everything(place: Place, one: Upstream) -> None:
    """All its connections break, and it goes on with the id of its session."""
    client = await place.http()
    meta = Meta(client)
    task = await meta.task("work", name="left")
    asking = await meta.task("ask", questions=["still there?"])
    await meta.question()
    await one.moments.reached("left")
    assert client.session
    await client.close()
    one.moments.open("left")
    again = Meta(Returning(place.app, client.session))
    assert {each["task_id"] for each in (await again.use("list_tasks", include_completed=True)).said["tasks"]} == {
        task,
        asking,
    }
    assert (await again.until("task_completed"))["data"]["taskId"] == task
    assert (await again.use("get_task_result", task_id=task)).own == ["left is done"]
    answer = await again.use("await_activity", timeout_ms=100, last_event_id=meta.told[-1]["id"])
    (question,) = answer.said["pending_client"]["elicitations"]
    await again.use("respond_to_elicitation", request_id=question["requestId"], action="accept", content={"value": "y"})
    assert (await again.use("get_task_result", task_id=asking)).own == ["y"]
    await again.talk.close()


async def test_p_039_a_call_whose_caller_hangs_up_is_found_among_the_tasks(place: Place, one: Upstream) -> None:
    client = await place.http()
    meta = Meta(client)
    call = meta.begin("execute_tool", server="one", tool="work", args={"name": "left"})
    await one.moments.reached("left")
    await call.cancel()
    created = await meta.until("task_created")
    one.moments.open("left")
    assert (await meta.use("get_task_result", task_id=created["data"]["taskId"])).own == ["left is done"]
    assert one.calls == 1


async def test_p_039_a_result_that_did_not_arrive_can_be_asked_for_again(place: Place, one: Upstream) -> None:
    meta = Meta(await place.http())
    task = await meta.task("work", name="x")
    waiting = meta.begin("get_task_result", task_id=task)
    await meta.talk.ask("ping")
    await waiting.cancel()
    one.moments.open("x")
    assert (await meta.use("get_task_result", task_id=task)).own == ["x is done"]


async def test_p_065_work_goes_on_when_its_session_ends(place: Place, one: Upstream) -> None:
    client = await place.http()
    task = await Meta(client).task("work", name="left")
    await one.moments.reached("left")
    assert await client.end() == 200
    one.moments.open("left")
    (row,) = [row for row in await place.engine.list_all() if row.id == task]
    async with asyncio.timeout(PATIENCE):
        ended = await place.engine.finished(row)
    assert ended.status is Status.COMPLETED


async def test_p_067_a_session_lives_for_half_an_hour_without_use() -> None:
    assert ProxySettings().idle == timedelta(minutes=30)


async def test_p_067_a_session_nobody_uses_leaves_its_servers(one: Upstream) -> None:
    async with proxying([one], idle=SHORT) as place:
        meta = Meta(await place.http())
        before = (await meta.execute("whoami")).own
        async with asyncio.timeout(PATIENCE):
            await one.left(before[0])
        assert (await meta.execute("whoami")).own != before


async def test_p_067_a_session_at_work_is_not_idle(one: Upstream) -> None:
    async with proxying([one], idle=SHORT) as place:
        meta, other = Meta(await place.http()), Meta(await place.http())
        task = await meta.task("work", name="long")
        idle = (await other.execute("whoami")).own
        await one.left(idle[0])
        one.moments.open("long")
        assert (await meta.use("get_task_result", task_id=task)).own == ["long is done"]


async def test_p_067_what_a_session_has_not_been_told_is_told_when_it_is_used_again(
    one: Upstream, tmp_path: Path
) -> None:
    async with proxying([one], idle=SHORT, store=f"sqlite:///{tmp_path}/proxy.db") as place:
        meta = Meta(await place.http())
        here = (await meta.execute("whoami")).own
        task = await meta.task("work", name="x")
        one.moments.open("x")
        await one.left(here[0])
        assert (await meta.until("task_completed"))["data"]["taskId"] == task
        ids = [event["id"] for event in meta.told]
        assert len(set(ids)) == len(ids)


async def test_p_054_a_client_with_tasks_of_2025_is_told_how_they_end(one: Upstream) -> None:
    """Without the meta tools the same proxy gives such a client native tasks, and pushes their status."""
    gateway = Gateway({"one": one.entry}, store="memory://")
    async with served(gateway) as place:
        talk = await place.http()
        task = await talk.hand_in("one__work", name="x")
        one.moments.open("x")
        told: dict[str, Any] = await talk.told(task, "completed")
        assert told["taskId"] == task
