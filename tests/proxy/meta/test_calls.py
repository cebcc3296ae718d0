"""`execute_tool`: a quick call is what it always was, a slow one becomes a task."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from coatcheck.proxy.settings import ProxySettings
from tests.matrix.clients import Client
from tests.proxy.meta.talks import Meta, proxying
from tests.proxy.meta.upstreams import EVERYTHING, Upstream
from tests.server.asgi import running
from tests.v2025.wire import ASKABLE, VERSION, OverHTTP, Place

pytestmark = pytest.mark.anyio

RUNS = 48


async def _schema(meta: Meta, tool: str) -> dict[str, Any]:
    return (await meta.talk.tools())[tool]["inputSchema"]


async def test_p_001_execute_tool_takes_a_server_a_tool_arguments_and_a_timeout_of_two_minutes(meta: Meta) -> None:
    schema = await _schema(meta, "execute_tool")
    assert list(schema["properties"]) == ["server", "tool", "args", "timeout_ms"]
    assert schema["required"] == ["server", "tool"]
    assert schema["properties"]["timeout_ms"]["default"] == 120_000
    assert schema["properties"]["timeout_ms"]["minimum"] == 0


async def test_p_002_a_call_that_ends_in_time_makes_no_task(meta: Meta, place: Place) -> None:
    answer = await meta.execute("echo", word="quick")
    assert answer.own == ["quick"]
    assert (await meta.use("list_tasks", include_completed=True)).said == {"tasks": []}
    assert [event["type"] for event in meta.told] == ["server_connected"]


async def test_p_003_after_its_timeout_a_call_goes_on_as_a_task(meta: Meta, one: Upstream) -> None:
    answer = await meta.execute("work", timeout_ms=1, name="slow")
    assert (await meta.use("get_task", task_id=answer.task_id)).said["task"]["status"] == "working"
    await one.moments.reached("slow")
    one.moments.open("slow")
    assert (await meta.settled(answer.task_id))["status"] == "completed"
    assert one.calls == 1


async def test_p_004_the_promotion_says_it_in_a_sentence_and_as_json(meta: Meta) -> None:
    answer = await meta.execute("work", timeout_ms=1, name="slow")
    sentence, said = answer.own
    assert answer.task_id in sentence
    assert "1 ms" in sentence
    assert "get_task_result" in sentence
    assert set(said) == {"proxy_task", "pending_on_server"}
    assert set(said["proxy_task"]) == {"task_id", "status", "created_at", "server", "tool"}
    assert {"status": "working", "server": "one", "tool": "work"}.items() <= said["proxy_task"].items()
    assert said["pending_on_server"] == {
        "tasks": [{"taskId": answer.task_id, "toolName": "work", "status": "working"}],
        "elicitations_for_server": [],
    }
    assert answer.raw["isError"] is False


async def test_p_004_p_074_the_promotion_tells_of_its_own_server_only(one: Upstream, two: Upstream) -> None:
    async with proxying([one, two]) as place:
        meta = Meta(await place.memory())
        await meta.task("ask", server="two", questions=["elsewhere?"])
        await meta.question(message="elsewhere?")
        asking = await meta.task("ask", questions=["here?"])
        question = await meta.question(message="here?")
        answer = await meta.execute("work", timeout_ms=1, name="slow")
        pending = answer.own[1]["pending_on_server"]
        assert {task["taskId"] for task in pending["tasks"]} == {asking, answer.task_id}
        assert pending["elicitations_for_server"] == [{"requestId": question, "server": "one", "message": "here?"}]
        assert answer.pending
        assert [each["message"] for each in answer.pending["elicitations"]] == ["elsewhere?", "here?"]


async def test_p_005_a_late_result_is_the_tasks(meta: Meta, one: Upstream) -> None:
    task = await meta.task("work", name="late")
    await one.moments.reached("late")
    one.moments.open("late")
    completed = await meta.until("task_completed", taskId=task)
    assert completed["data"]["toolName"] == "work"
    answer = await meta.use("get_task_result", task_id=task)
    assert answer.own == ["late is done"]


@pytest.mark.parametrize("seed", range(3))
async def test_p_005_nothing_is_lost_between_the_timer_and_the_result(meta: Meta, one: Upstream, seed: int) -> None:
    """Calls end within a tick of their timeout: each is answered with its result, or is a task that has it."""
    dice, loop = random.Random(seed), asyncio.get_running_loop()
    await meta.execute("echo", word="connected")

    async def run(number: int) -> str:
        name = f"{seed}-{number}"
        pending = meta.begin("execute_tool", server="one", tool="work", args={"name": name}, timeout_ms=20)
        loop.call_later(0.02 + dice.uniform(-0.006, 0.006), one.moments.open, name)
        answer = await meta.answer(pending)
        if answer.own == [f"{name} is done"]:
            return "answered"
        result = await meta.use("get_task_result", task_id=answer.task_id)
        assert result.own == [f"{name} is done"], result.raw
        return "promoted"

    ways: Counter[str] = Counter()
    for batch in range(0, RUNS, 6):
        ways.update(await asyncio.gather(*(run(number) for number in range(batch, batch + 6))))
    assert ways.total() == RUNS
    await meta.caught_up()
    told = Counter(event["type"] for event in meta.told)
    assert told["task_created"] == told["task_completed"] == ways["promoted"]
    assert one.calls == RUNS + 1


async def test_p_006_with_no_timeout_every_call_is_a_task(meta: Meta) -> None:
    task = await meta.task("echo", word="as a task")
    assert (await meta.use("get_task_result", task_id=task)).own == ["as a task"]


async def test_p_007_a_question_alone_makes_no_task(meta: Meta) -> None:
    call = meta.begin("execute_tool", server="one", tool="ask", args={"questions": ["who?"]})
    question = await meta.question()
    assert not call.is_answered
    assert (await meta.use("list_tasks", include_completed=True)).said == {"tasks": []}
    await meta.use("respond_to_elicitation", request_id=question, action="accept", content={"value": "Ada"})
    assert (await meta.answer(call)).own == ["Ada"]
    assert "task_created" not in {event["type"] for event in meta.told}


async def test_p_036_calls_of_one_server_run_side_by_side_each_with_its_own_timer(meta: Meta, one: Upstream) -> None:
    names = [f"n{number}" for number in range(10)]
    timeouts = [1, 60_000] * 5
    calls = [
        meta.begin("execute_tool", server="one", tool="work", args={"name": name}, timeout_ms=timeout)
        for name, timeout in zip(names, timeouts, strict=True)
    ]
    for name in names:
        await one.moments.reached(name)
    promoted = [await meta.answer(call) for call in calls[::2]]
    assert len({answer.task_id for answer in promoted}) == 5
    assert not any(call.is_answered for call in calls[1::2])
    for name in names:
        one.moments.open(name)
    assert [(await meta.answer(call)).own for call in calls[1::2]] == [[f"{name} is done"] for name in names[1::2]]


async def test_p_040_p_041_p_043_p_044_the_numbers_are_those_of_the_design() -> None:
    settings = ProxySettings()
    assert settings.default_ttl.total_seconds() * 1000 == 300_000
    assert settings.max_ttl.total_seconds() * 1000 == 1_800_000
    assert settings.retention.total_seconds() * 1000 == 300_000
    assert settings.max_tasks == 100


async def test_p_044_there_are_only_so_many_unfinished_tasks_in_a_session(one: Upstream) -> None:
    async with proxying([one], max_tasks=2) as place:
        meta = Meta(await place.memory())
        first = await meta.task("work", name="first")
        await meta.task("work", name="second")
        refused = await meta.execute("echo", word="third")
        assert refused.error["code"] == "TOOL_ERR_TOO_MANY_TASKS"
        assert refused.error["limit"] == 2
        await meta.use("cancel_task", task_id=first)
        await meta.until("task_cancelled")
        assert (await meta.execute("echo", word="third")).own == ["third"]


async def test_p_044_calls_under_way_count_so_that_none_is_lost_when_it_should_become_a_task(one: Upstream) -> None:
    async with proxying([one], max_tasks=1) as place:
        meta = Meta(await place.http())
        call = meta.begin("execute_tool", server="one", tool="work", args={"name": "x"}, timeout_ms=500)
        await one.moments.reached("x")
        assert (await meta.execute("echo", word="too much")).error["code"] == "TOOL_ERR_TOO_MANY_TASKS"
        task = (await meta.answer(call)).task_id
        one.moments.open("x")
        assert (await meta.use("get_task_result", task_id=task)).own == ["x is done"]
        assert one.calls == 1


async def test_p_044_a_call_that_is_let_in_while_another_becomes_a_task_is_not_lost(
    one: Upstream, tmp_path: Path
) -> None:
    """Calls are made all the time while others are promoted: whatever was begun can be had."""
    async with proxying([one], max_tasks=1, store=f"sqlite:///{tmp_path}/proxy.db") as place:
        meta = Meta(await place.http())
        await meta.execute("echo", word="connected")

        async def hurry(who: int) -> None:
            for number in range(15):
                name = f"{who}-{number}"
                answer = await meta.execute("work", timeout_ms=0, name=name)
                one.moments.open(name)
                if not answer.raw["isError"]:
                    assert (await meta.use("get_task_result", task_id=answer.task_id)).own == [f"{name} is done"]

        await asyncio.gather(*map(hurry, range(6)))
        await meta.caught_up()
        assert one.calls - 1 == [event["type"] for event in meta.told].count("task_created")


async def test_p_046_what_the_proxy_says_is_content_and_never_meta(meta: Meta) -> None:
    answers = [
        await meta.execute("work", timeout_ms=1, name="slow"),
        await meta.use("list_tasks"),
        await meta.use("await_activity", timeout_ms=100),
        await meta.use("get_task", task_id="none"),
    ]
    for answer in answers:
        assert set(answer.raw) == {"content", "isError"}
        assert {block["type"] for block in answer.raw["content"]} == {"text"}


@pytest.mark.parametrize(("tool", "args"), [("everything", {}), ("echo", {"word": "ü\n"}), ("fail", {})])
async def test_p_047_with_no_news_an_answer_is_the_tools_byte_for_byte(
    place: Place, one: Upstream, tool: str, args: dict[str, Any]
) -> None:
    app = one.server().streamable_http_app()
    async with running(app):
        direct = OverHTTP(Client("test", VERSION, ASKABLE), app, stands=False)
        await direct.greet()
        _, wanted = await direct.post("tools/call", {"name": tool, "arguments": args})
    meta = Meta(through := await place.http(stands=False))
    await meta.execute("echo", word="connected")
    _, given = await through.post(
        "tools/call", {"name": "execute_tool", "arguments": {"server": "one", "tool": tool, "args": args}}
    )
    assert _result(given) == _result(wanted)


async def test_p_047_a_tasks_result_is_the_tools_too(meta: Meta) -> None:
    task = await meta.task("everything")
    await meta.until("task_completed")
    answer = await meta.use("get_task_result", task_id=task)
    assert answer.raw == (await meta.execute("everything")).raw
    assert answer.raw["structuredContent"] == EVERYTHING.structured_content


async def test_p_058_the_flow_of_the_design_from_a_slow_call_to_its_result(meta: Meta) -> None:
    call = meta.begin("execute_tool", server="one", tool="ask", args={"questions": ["API key?"]}, timeout_ms=1_000)
    await meta.question()
    promoted = await meta.answer(call)
    (question,) = promoted.own[1]["pending_on_server"]["elicitations_for_server"]
    assert question["message"] == "API key?"
    answer = {"action": "accept", "content": {"value": "hush"}}
    answered = await meta.use("respond_to_elicitation", request_id=question["requestId"], **answer)
    told = answered.types or (await meta.use("await_activity", timeout_ms=60_000)).types
    assert told == ["task_completed"]
    task = (await meta.use("get_task", task_id=promoted.task_id)).said
    assert task["task"]["status"] == "completed"
    assert task["pending_elicitations_for_server"] == []
    result = await meta.use("get_task_result", task_id=promoted.task_id)
    assert (result.own, result.raw["isError"]) == (["hush"], False)


async def test_an_error_that_a_tool_reports_is_its_result(meta: Meta) -> None:
    answer = await meta.execute("fail")
    assert answer.own == ["It went wrong"]
    assert answer.raw["isError"] is True


async def test_p_079_an_error_of_the_protocol_has_a_code_and_says_all_the_server_said(meta: Meta) -> None:
    answer = await meta.execute("refuse")
    assert answer.error == {
        "code": "TOOL_ERR_UPSTREAM",
        "message": "It is refused",
        "jsonrpc_code": -32050,
        "data": {"why": ["it was made so"]},
    }


async def test_p_079_what_is_not_there_is_refused_with_a_code_of_its_own(meta: Meta) -> None:
    codes = {
        "SERVER_NOT_FOUND": await meta.execute("echo", server="nowhere", word="x"),
        "TASK_NOT_FOUND": await meta.use("get_task", task_id="none"),
        "REQUEST_NOT_FOUND": await meta.use("respond_to_elicitation", request_id="none", action="cancel"),
        "TIMER_NOT_FOUND": await meta.use("get_timer", timer_id="none"),
        "INVALID_ARGUMENT": await meta.use("list_tools", pattern="("),
    }
    assert {f"TOOL_ERR_{code}" for code in codes} == {answer.error["code"] for answer in codes.values()}
    assert all(answer.error["message"] for answer in codes.values())


async def test_p_079_arguments_that_do_not_fit_are_refused_with_a_code_too(meta: Meta) -> None:
    for tool, arguments in (
        ("execute_tool", {"server": "one"}),
        ("execute_tool", {"server": "one", "tool": "echo", "timeout_ms": -1}),
        ("await_activity", {"timeout_ms": 99}),
        ("respond_to_elicitation", {"request_id": "x", "action": "perhaps"}),
    ):
        assert (await meta.use(tool, **arguments)).error["code"] == "TOOL_ERR_INVALID_ARGUMENT"


def _result(body: bytes) -> str:
    """Return the text of a result: also the order of its fields counts."""
    (data,) = [line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data: {")]
    return json.dumps(json.loads(data)["result"])
