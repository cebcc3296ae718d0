"""`await_activity`: it returns when anything happens, says what, and tells everything once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.matrix.peers import PATIENCE
from tests.proxy.meta.talks import Json, Meta, proxying
from tests.proxy.meta.upstreams import Upstream
from tests.v2025.wire import Place

pytestmark = pytest.mark.anyio

ASKING: Json = {"questions": ["who?"]}
NOBODY: Json = {"elicitations": [], "sampling_requests": []}


async def _quiet(meta: Meta) -> None:
    """Connect, and hear of all that comes of it."""
    await meta.execute("echo", word="connected")
    await meta.caught_up()


async def test_p_022_p_084_it_waits_for_half_a_minute_unless_told_otherwise(meta: Meta) -> None:
    schema = (await meta.talk.tools())["await_activity"]["inputSchema"]
    assert set(schema["properties"]) == {"timeout_ms", "last_event_id"}
    assert "required" not in schema
    timeout = schema["properties"]["timeout_ms"]
    assert (timeout["default"], timeout["minimum"], timeout["maximum"]) == (30_000, 100, 900_000)


async def test_p_084_it_waits_for_neither_less_nor_more(meta: Meta) -> None:
    for timeout in (0, 99, 900_001):
        refused = await meta.use("await_activity", timeout_ms=timeout)
        assert refused.error["code"] == "TOOL_ERR_INVALID_ARGUMENT"


async def test_p_022_p_026_p_027_when_nothing_happens_it_says_so(meta: Meta) -> None:
    answer = await meta.use("await_activity", timeout_ms=100)
    assert len(answer.blocks) == 1
    assert answer.said == {
        "triggers": [{"type": "timeout"}],
        "events": [],
        "pending_server": [],
        "pending_client": NOBODY,
    }


async def test_p_023_p_026_what_has_happened_is_told_at_once(meta: Meta, place: Place, one: Upstream) -> None:
    await _quiet(meta)
    task = await meta.task("work", name="x")
    one.moments.open("x")
    async with asyncio.timeout(PATIENCE):
        await place.engine.finished(await place.engine.get(task, None))
    await meta.talk.ask("ping")
    answer = await meta.use("await_activity", timeout_ms=900_000)
    assert answer.said["triggers"] == [{"type": "immediate"}]
    assert answer.types == ["task_completed"]


async def _told(meta: Meta, one: Upstream) -> str:
    await meta.execute("tell", uri="memo://greeting")
    return "notification"


async def _asked(meta: Meta, one: Upstream) -> str:
    meta.begin("execute_tool", server="one", tool="ask", args=ASKING)
    return "elicitation_request"


async def _sampled(meta: Meta, one: Upstream) -> str:
    meta.begin("execute_tool", server="one", tool="sample")
    return "sampling_request"


async def _completed(meta: Meta, one: Upstream) -> str:
    one.moments.open("early")
    return "task_completed"


async def _failed(meta: Meta, one: Upstream) -> str:
    one.moments.open("doomed")
    return "task_failed"


async def _cancelled(meta: Meta, one: Upstream) -> str:
    tasks = (await meta.use("list_tasks")).said["tasks"]
    (task,) = [task["task_id"] for task in tasks if task["args"] == {"name": "early"}]
    await meta.use("cancel_task", task_id=task)
    return "task_cancelled"


@pytest.mark.parametrize("happens", [_told, _asked, _sampled, _completed, _failed, _cancelled])
async def test_p_024_p_026_it_is_woken_by_what_happens(
    meta: Meta, one: Upstream, happens: Callable[[Meta, Upstream], Awaitable[str]]
) -> None:
    await meta.task("work", name="early")
    await meta.task("refuse_late", name="doomed")
    await _quiet(meta)
    waiting = meta.begin("await_activity", timeout_ms=60_000)
    await meta.talk.ask("ping")
    kind = await happens(meta, one)
    answer = await meta.answer(waiting)
    assert {"type": "event", "server": "one", "eventType": kind} in answer.said["triggers"]


async def test_p_024_p_026_p_038_it_is_woken_when_a_connection_is_lost(meta: Meta, one: Upstream) -> None:
    task = await meta.task("work", name="lost")
    await one.moments.reached("lost")
    await _quiet(meta)
    waiting = meta.begin("await_activity", timeout_ms=60_000)
    await meta.talk.ask("ping")
    await one.stop()
    answer = await meta.answer(waiting)
    assert answer.said["triggers"][0] == {"type": "server_disconnected", "server": "one"}
    assert (await meta.until("task_failed"))["data"]["taskId"] == task


async def test_p_025_a_log_message_neither_wakes_nor_appears(meta: Meta) -> None:
    await _quiet(meta)
    waiting = meta.begin("await_activity", timeout_ms=60_000)
    await meta.execute("log", level="emergency", words=["fire"])
    async with asyncio.timeout(PATIENCE):  # it comes on a stream of its own
        while not (await meta.use("get_logs")).said["logs"]:
            await meta.talk.ask("ping")
    assert not waiting.is_answered
    await meta.execute("tell", uri="memo://greeting")
    answer = await meta.answer(waiting)
    assert answer.said["triggers"] == [{"type": "event", "server": "one", "eventType": "notification"}]
    assert "fire" not in str(answer.raw)
    assert "fire" not in str(meta.told)


async def test_p_026_several_events_are_several_triggers(meta: Meta, one: Upstream) -> None:
    """A server that takes another's place goes and comes in the same moment."""
    waiting = meta.begin("await_activity", timeout_ms=60_000)
    await meta.talk.ask("ping")
    await meta.use("add_server", name="one", url=one.url)
    triggers = (await meta.answer(waiting)).said["triggers"]
    assert triggers[:2] == [
        {"type": "event", "server": "one", "eventType": "server_removed"},
        {"type": "event", "server": "one", "eventType": "server_added"},
    ]


async def test_p_027_events_are_grouped_by_server_and_told_once(one: Upstream, two: Upstream) -> None:
    async with proxying([one, two]) as place:
        meta, quiet = Meta(await place.memory()), Meta(await place.memory())
        for server in ("one", "two"):
            await meta.execute("echo", server=server, word="connected")
        for server in ("one", "two", "one"):
            await meta.task("work", server=server, name="x")
        one.moments.open("x")
        two.moments.open("x")
        groups: dict[str, list[str]] = {}
        async with asyncio.timeout(PATIENCE):
            while sum(map(len, groups.values())) < 3:
                answer = await meta.use("await_activity", timeout_ms=5_000)
                for group in answer.said["events"]:
                    assert {event["server"] for event in group["events"]} == {group["server"]}
                    groups.setdefault(group["server"], []).extend(event["type"] for event in group["events"])
                names = [group["server"] for group in answer.said["events"]]
                assert len(set(names)) == len(names)
        assert groups == {"one": ["task_completed"] * 2, "two": ["task_completed"]}
        assert (await meta.use("await_activity", timeout_ms=100)).said["events"] == []
        assert (await quiet.use("await_activity", timeout_ms=100)).said["events"] == []


async def test_p_028_it_shows_what_all_servers_are_at_work_on(one: Upstream, two: Upstream) -> None:
    async with proxying([one, two]) as place:
        meta = Meta(await place.memory())
        ended = await meta.task("echo", word="over")
        await meta.settled(ended)
        tasks = {server: await meta.task("work", server=server, name="x") for server in ("one", "two")}
        for _ in range(2):  # it is how things stand, and not told once
            answer = await meta.use("await_activity", timeout_ms=100)
            shown = {group["server"]: group["working_tasks"] for group in answer.said["pending_server"]}
            assert shown == {
                server: [{"taskId": task, "toolName": "work", "status": "working"}] for server, task in tasks.items()
            }


async def test_p_029_it_shows_what_waits_for_the_client(meta: Meta) -> None:
    await meta.task("ask", **ASKING)
    question = await meta.question()
    await meta.task("sample")
    request = await meta.question("sampling_request")
    for _ in range(2):
        answer = await meta.use("await_activity", timeout_ms=100)
        assert answer.said["pending_client"] == {
            "elicitations": [{"requestId": question, "server": "one", "message": "who?"}],
            "sampling_requests": [{"requestId": request, "server": "one"}],
        }
        assert len(answer.blocks) == 1
    await meta.use("respond_to_elicitation", request_id=question, action="decline")
    await meta.use("cancel_sampling_request", request_id=request)
    await meta.caught_up()
    assert (await meta.use("await_activity", timeout_ms=100)).said["pending_client"] == NOBODY


async def test_p_030_p_070_what_came_after_an_event_is_told_again_on_request(meta: Meta) -> None:
    await _quiet(meta)
    first = (await meta.use("await_activity", timeout_ms=100)).said["lastEventId"]
    assert first == meta.told[-1]["id"]
    for word in "ab":
        await meta.settled(await meta.task("echo", word=word))
    await meta.caught_up()
    later = [event["id"] for event in meta.told if event["id"] > first]
    assert len(later) == 4
    for _ in range(2):
        answer = await meta.use("await_activity", timeout_ms=60_000, last_event_id=first)
        assert [event["id"] for event in answer.events] == later
        assert answer.said["triggers"] == [{"type": "immediate"}]
        assert answer.said["lastEventId"] == later[-1]
    answer = await meta.use("await_activity", timeout_ms=100, last_event_id=later[-1])
    assert answer.said["triggers"] == [{"type": "timeout"}]
    assert answer.said["events"] == []


async def test_p_070_an_id_nobody_knows_brings_back_everything(meta: Meta) -> None:
    await _quiet(meta)
    await meta.settled(await meta.task("echo", word="a"))
    await meta.caught_up()
    everything = [event["id"] for event in meta.told]
    answer = await meta.use("await_activity", last_event_id="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert [event["id"] for event in answer.events] == everything


async def test_p_031_all_who_wait_are_woken_and_the_first_takes_the_events(meta: Meta, one: Upstream) -> None:
    await _quiet(meta)
    task = await meta.task("work", name="x")
    bystander = await meta.task("work", name="y")
    waiting = [meta.begin("await_activity", timeout_ms=60_000) for _ in range(4)]
    await meta.talk.ask("ping")
    one.moments.open("x")
    answers = [await meta.answer(each) for each in waiting]
    trigger = {"type": "event", "server": "one", "eventType": "task_completed"}
    assert [answer.said["triggers"] for answer in answers] == [[trigger]] * 4
    assert sorted(len(answer.events) for answer in answers) == [0, 0, 0, 1]
    pending = [{"taskId": bystander, "toolName": "work", "status": "working"}]
    for answer in answers:
        assert answer.said["pending_server"] == [{"server": "one", "working_tasks": pending}]
        assert answer.said["pending_client"] == NOBODY
    assert [event["data"]["taskId"] for answer in answers for event in answer.events] == [task]


async def test_p_048_a_waiter_that_hangs_up_takes_no_events_with_it(meta: Meta, one: Upstream) -> None:
    await _quiet(meta)
    await meta.task("work", name="x")
    waiting = meta.begin("await_activity", timeout_ms=60_000)
    await meta.talk.ask("ping")
    await waiting.cancel()
    await meta.talk.ask("ping")
    one.moments.open("x")
    answer = await meta.use("await_activity", timeout_ms=60_000)
    assert answer.types == ["task_completed"]
