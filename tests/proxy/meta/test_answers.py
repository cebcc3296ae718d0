"""What every answer carries: events, each once; and the questions that wait, as long as they do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coatcheck.proxy.activity.events import EventType
from tests.matrix.peers import PATIENCE
from tests.proxy.meta.rows import TOOLS
from tests.proxy.meta.talks import EVENTS, PENDING, Meta, proxying
from tests.proxy.meta.upstreams import Upstream
from tests.v2025.wire import Place

pytestmark = pytest.mark.anyio

SERVERS_WORK = ("working_tasks", "pending_server", "pending_on_server")
ASKED: dict[str, dict[str, Any]] = {
    "execute_tool": {"server": "one", "tool": "echo", "args": {"word": "hi"}},
    "get_task": {"task_id": "none"},
    "get_task_result": {"task_id": "none"},
    "cancel_task": {"task_id": "none"},
    "await_activity": {"timeout_ms": 100},
    "respond_to_elicitation": {"request_id": "none", "action": "cancel"},
    "cancel_elicitation_request": {"request_id": "none"},
    "respond_to_sampling": {"request_id": "none", "content": "x"},
    "cancel_sampling_request": {"request_id": "none"},
    "add_server": {"name": "no name"},
    "remove_server": {"server": "nowhere"},
    "reconnect_server": {"server": "nowhere"},
    "get_server_status": {"server": "one"},
    "read_resource": {"server": "one", "uri": "memo://greeting"},
    "subscribe_resource": {"server": "one", "uri": "memo://greeting"},
    "unsubscribe_resource": {"server": "one", "uri": "memo://greeting"},
    "get_prompt": {"server": "one", "name": "greet", "arguments": {"name": "Ada"}},
    "set_timer": {"duration_ms": 60_000},
    "get_timer": {"timer_id": "none"},
    "delete_timer": {"timer_id": "none"},
}
"""Arguments of a call of each tool that needs some; whether it is refused makes no difference."""


async def test_p_068_every_event_is_told_once_whatever_tools_are_used(meta: Meta, one: Upstream) -> None:
    """Tasks end while many kinds of tools are called at once, in no order: nothing is told twice, or left out."""
    await meta.execute("echo", word="connected")
    names = [f"n{number}" for number in range(12)]
    tasks = await asyncio.gather(*(meta.task("work", name=name) for name in names))
    for name in names:
        one.moments.open(name)
        await asyncio.gather(
            meta.use("list_tasks"),
            meta.use("await_activity", timeout_ms=100),
            meta.execute("echo", word="meanwhile"),
            meta.use("get_task", task_id="none"),
            meta.use("list_servers"),
        )
    await asyncio.gather(*(meta.settled(task) for task in tasks))
    await meta.until("task_completed", taskId=tasks[-1])
    await meta.caught_up()
    everything = (await meta.use("await_activity", last_event_id="none")).events
    told = meta.told[: -len(everything)]
    assert len({event["id"] for event in told}) == len(told)
    assert sorted(told, key=lambda event: event["id"]) == everything
    ended = [event["data"]["taskId"] for event in told if event["type"] == "task_completed"]
    assert sorted(ended) == sorted(tasks)


async def test_p_068_a_refusal_tells_of_events_too(meta: Meta) -> None:
    await meta.task("work", name="x")
    await meta.use("list_servers")
    await meta.use("set_timer", duration_ms=1)
    async with asyncio.timeout(PATIENCE):
        while "timer_expired" not in (refused := await meta.use("get_task", task_id="none")).types:
            await meta.talk.ask("ping")
    assert refused.raw["isError"] is True


async def test_p_069_an_event_has_an_id_a_type_a_server_a_time_and_data(meta: Meta) -> None:
    await meta.settled(await meta.task("echo", word="x"))
    await meta.until("task_completed")
    for event in meta.told:
        assert set(event) == {"id", "type", "server", "timestamp", "data"}
        assert event["type"] in set(EventType)
        assert event["server"] == "one"
        assert event["timestamp"].endswith("Z")


async def test_p_071_an_event_that_comes_while_another_is_told_is_told_next(meta: Meta) -> None:
    """Many callers at once, each with a timer that goes off meanwhile: what one was told no other is."""
    await asyncio.gather(*(meta.use("set_timer", duration_ms=number, message=str(number)) for number in range(1, 40)))
    async with asyncio.timeout(PATIENCE):
        while len([event for event in meta.told if event["type"] == "timer_expired"]) < 39:
            await asyncio.gather(*(meta.use("list_timers") for _ in range(5)))
    await meta.caught_up()
    messages = [event["data"]["message"] for event in meta.told if event["type"] == "timer_expired"]
    assert sorted(messages, key=int) == [str(number) for number in range(1, 40)]


async def test_p_074_what_servers_work_on_is_told_only_where_it_is_asked_for(meta: Meta) -> None:
    await meta.task("work", name="x")
    for tool in TOOLS:
        answer = await meta.use(tool, **ASKED.get(tool, {}))
        is_told = any(word in str(answer.raw) for word in SERVERS_WORK)
        assert is_told == (tool in ("await_activity", "get_server_status")), tool
    assert "pending_on_server" in (await meta.execute("work", timeout_ms=0, name="y")).own[1]


async def test_p_075_every_answer_has_the_questions_that_wait(meta: Meta) -> None:
    await meta.task("ask", questions=["who?"])
    await meta.task("sample")
    waiting = {
        "elicitations": [{"requestId": await meta.question(), "server": "one", "message": "who?"}],
        "sampling_requests": [{"requestId": await meta.question("sampling_request"), "server": "one"}],
    }
    for tool in TOOLS:
        answer = await meta.use(tool, **ASKED.get(tool, {}))
        shown = answer.said["pending_client"] if tool == "await_activity" else answer.pending
        assert shown == waiting, tool


async def test_p_075_a_question_that_is_answered_is_in_no_answer(meta: Meta) -> None:
    await meta.task("ask", questions=["who?"])
    answer = await meta.use("respond_to_elicitation", request_id=await meta.question(), action="decline")
    assert answer.pending is None


async def test_p_076_first_the_result_then_events_then_questions(meta: Meta) -> None:
    await meta.execute("echo", word="connected")
    await meta.task("ask", questions=["who?"])
    await meta.question()
    for call in (
        meta.execute("work", timeout_ms=0, name="x"),
        meta.use("set_timer", duration_ms=1),
        _with_event(meta),
    ):
        answer = await call
        kinds = [next((word for word in (EVENTS, PENDING) if word in block), "own") for block in answer.blocks]
        assert kinds == sorted(kinds, key=["own", EVENTS, PENDING].index)
        assert kinds[0] == "own"
        assert kinds[-1] == PENDING
    assert kinds == ["own", EVENTS, PENDING]


async def _with_event(meta: Meta) -> Any:
    """Return an answer that tells of an event."""
    async with asyncio.timeout(PATIENCE):
        while not (answer := await meta.use("list_timers")).events:
            await meta.talk.ask("ping")
    return answer


async def test_p_076_a_tools_own_blocks_stay_the_first(meta: Meta) -> None:
    await meta.task("ask", questions=["who?"])
    await meta.question()
    answer = await meta.execute("everything")
    assert [block["text"] for block in answer.raw["content"][:2]] == ["plain", '{"json": ["as", "text"]}']
    assert set(answer.blocks[-1]) == {PENDING}
    assert answer.raw["structuredContent"]["empty"] == {}


async def test_p_077_events_that_nobody_asks_for_are_bounded(place: Place, one: Upstream) -> None:
    meta = Meta(await place.memory())
    await meta.execute("flood", uri="memo://greeting", times=1_100)
    await meta.execute("tell", uri="memo://last")
    await meta.until("notification", params={"uri": "memo://last"})
    everything = (await meta.use("await_activity", last_event_id="none")).events
    assert 900 <= len(everything) <= 1_000
    assert everything[-1]["data"]["params"] == {"uri": "memo://last"}


async def test_p_072_p_051_each_session_has_its_own_copy_of_what_concerns_all(one: Upstream, two: Upstream) -> None:
    async with proxying([one]) as place:
        sessions = [Meta(await place.http()) for _ in range(3)]
        for meta in sessions:
            await meta.execute("echo", word="connected")
        await sessions[0].use("add_server", name="two", url=two.url)
        for meta in sessions:
            await meta.until("server_added", server="two")
            await meta.caught_up()
            assert [event["type"] for event in meta.told].count("server_added") == 1
        ids = [event["id"] for meta in sessions for event in meta.told]
        assert len(set(ids)) == len(ids)
