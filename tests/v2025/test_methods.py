"""`tasks/get`, `tasks/result` and `tasks/cancel`: what they say of a task in every status, and of none."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ImageContent, TextContent

from coatcheck import Policy
from coatcheck.server import TaskServer
from tests.matrix.peers import PATIENCE, Pending
from tests.requirements.marks import requirement
from tests.v2025.bench import Bench
from tests.v2025.wire import HINT, NOT_FOUND, RELATED, Talk, Transport, related, served, text_of

pytestmark = pytest.mark.anyio

TOOLS = ("add", "wait", "note", "ask", "complain", "crash", "say_no", "refuse")
FIELDS = {"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"}
ENDS = {"add": "completed", "complain": "failed", "crash": "failed", "say_no": "failed", "refuse": "failed"}


@pytest.fixture
def bench() -> Bench:
    return Bench(*TOOLS)


async def ended(caller: Talk, tool: str) -> str:
    """Hand a call in, wait for its end, and return the task's id."""
    task_id = await caller.hand_in(tool, **({"a": 1} if tool == "add" else {}))
    await caller.told(task_id, ENDS[tool])
    return task_id


async def cancelled(caller: Talk) -> str:
    task_id = await caller.hand_in("wait")
    await caller.ask("tasks/cancel", taskId=task_id)
    return task_id


async def is_held(caller: Talk, pending: Pending) -> bool:
    """Whether a request is still not answered once a later one has been."""
    await caller.ask("ping")
    return not pending.is_answered


# tasks/get


@requirement("F-026", "G-007", "R-17")
async def test_a_look_at_a_task_says_how_it_is_and_has_no_payload(caller: Talk, bench: Bench) -> None:
    task_id = await caller.hand_in("note")
    await asyncio.wait_for(bench.begun.wait(), PATIENCE)
    seen = await caller.get(task_id)
    assert seen.keys() == FIELDS | {"statusMessage"}
    assert (seen["taskId"], seen["status"], seen["statusMessage"]) == (task_id, "working", "Half done")


@requirement("F-026", "F-039", "F-043", "E-024", "G-006")
async def test_a_look_at_a_task_that_asks_does_not_show_the_question(caller: Talk) -> None:
    task_id = await caller.hand_in("ask")
    await caller.told(task_id, "input_required")
    seen = await caller.get(task_id)
    assert seen.keys() == FIELDS | {"statusMessage"}
    assert seen["status"] == "input_required"


@requirement("F-026", "G-007", "F-039", "E-029", "E-030", "E-031")
@pytest.mark.parametrize("tool", ENDS)
async def test_a_look_at_a_task_that_has_ended_has_no_payload(memory: Talk, tool: str) -> None:
    task_id = await ended(memory, tool)
    seen = await memory.get(task_id)
    assert seen["status"] == ENDS[tool]
    assert FIELDS <= seen.keys() <= FIELDS | {"statusMessage"}


@requirement("R-01", "F-041", "E-030", "E-033")
async def test_a_tool_that_reports_an_error_has_failed_and_its_text_is_the_message(caller: Talk) -> None:
    seen = await caller.get(await ended(caller, "complain"))
    assert (seen["status"], seen["statusMessage"]) == ("failed", "It is broken")


@requirement("R-03", "E-047", "E-033")
@pytest.mark.parametrize(
    ("tool", "message"), [("crash", "Error executing tool crash"), ("say_no", "No, said the tool")]
)
async def test_a_tool_that_raises_has_failed_as_in_a_plain_call(memory: Talk, tool: str, message: str) -> None:
    seen = await memory.get(await ended(memory, tool))
    assert seen["status"] == "failed"
    assert message in seen["statusMessage"]
    assert "a secret" not in str(seen)


@requirement("R-02", "F-042", "E-033")
async def test_a_tool_that_raises_a_protocol_error_has_failed_with_its_message(caller: Talk) -> None:
    seen = await caller.get(await ended(caller, "refuse"))
    assert (seen["status"], seen["statusMessage"]) == ("failed", "Too fast")


# tasks/result


@requirement("F-027", "E-026", "R-07")
async def test_collecting_waits_for_the_end(caller: Talk, bench: Bench) -> None:
    collecting = caller.collecting(await caller.hand_in("wait"))
    await asyncio.wait_for(bench.begun.wait(), PATIENCE)
    assert await is_held(caller, collecting)
    bench.go.set()
    assert text_of((await collecting.answer())["result"]) == "waited"


@requirement("F-028", "F-029", "E-034", "E-029", "G-007", "R-17")
async def test_a_result_is_what_the_call_would_have_returned_and_names_its_task(caller: Talk) -> None:
    task_id = await caller.hand_in("add", a=1)
    plain = await caller.use("add", a=1)
    assert await caller.collect(task_id) == {**plain, "_meta": related(task_id)}


@requirement("F-028", "R-01", "E-030", "E-035", "R-03")
@pytest.mark.parametrize("tool", ["complain", "crash", "say_no"])
async def test_the_result_of_a_failed_task_is_the_error_the_tool_reported(memory: Talk, tool: str) -> None:
    task_id = await ended(memory, tool)
    result = await memory.collect(task_id)
    assert result["isError"] is True
    assert result == {**await memory.use(tool), "_meta": related(task_id)}


@requirement("F-028", "R-02", "F-042", "E-031", "E-035", "G-007")
async def test_a_protocol_error_is_raised_again_by_collecting_it(caller: Talk) -> None:
    task_id = await ended(caller, "refuse")
    refused = await caller.refusal("tasks/result", taskId=task_id)
    plain = await caller.refusal("tools/call", name="refuse", arguments={})
    assert plain == {"code": -32050, "message": "Too fast", "data": {"retry": [1, None]}}
    assert refused == {**plain, "data": {**plain["data"], "_meta": related(task_id)}}


@requirement("R-02", "E-035")
@pytest.mark.parametrize("data", [None, [1], "text", {"_meta": {"k": 1}}, 0], ids=str)
async def test_whatever_data_an_error_has_is_kept_and_names_the_task_where_it_can(data: Any) -> None:
    server = TaskServer("test", store="memory://")

    @server.tool(task=True)
    async def refuse() -> None:
        raise MCPError(-32050, "No", data)

    async with served(server) as place:
        caller = await place.memory()
        task_id = await caller.hand_in("refuse")
        error = await caller.refusal("tasks/result", taskId=task_id)
    if data is None:
        assert error["data"] == {"_meta": related(task_id)}
    elif isinstance(data, dict):
        assert error["data"] == {"_meta": {"k": 1, **related(task_id)}}
    else:
        assert error["data"] == data


@requirement("F-028")
async def test_all_of_a_result_is_kept(transport: Transport) -> None:
    async def everything() -> CallToolResult:
        blocks = [TextContent(text="caf\u00e9"), ImageContent(data="AA==", mime_type="image/png")]
        return CallToolResult(content=[*blocks], structured_content={"a": [None, {}]}, _meta={"own": {"k": None}})

    server, bare = TaskServer("test", store="memory://"), MCPServer[Any]("test")
    server.add_tool(everything, task=True)
    bare.add_tool(everything)
    async with served(server, transport) as place, served(bare, transport) as other:
        caller, twin = await place.connect(transport), await other.connect(transport)
        task_id = await caller.hand_in("everything")
        plain = await twin.use("everything")
        result = await caller.collect(task_id)
    assert result == {**plain, "_meta": {**plain["_meta"], **related(task_id)}}


@requirement("F-030")
@pytest.mark.parametrize("tool", ENDS)
async def test_a_result_may_be_collected_any_number_of_times(memory: Talk, tool: str) -> None:
    task_id = await ended(memory, tool)
    answers = [await memory.request("tasks/result", {"taskId": task_id}) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]


@requirement("F-055", "F-027")
async def test_an_end_that_comes_just_when_somebody_begins_to_wait_is_not_missed(memory: Talk) -> None:
    for number in range(30):
        assert text_of(await memory.collect(await memory.hand_in("add", a=number))) == str(number + 1)


@requirement("F-027", "F-030")
async def test_all_who_wait_get_the_result(caller: Talk, bench: Bench) -> None:
    task_id = await caller.hand_in("wait")
    waiting = [caller.collecting(task_id) for _ in range(5)]
    await caller.ask("ping")
    bench.go.set()
    results = [await pending.answer() for pending in waiting]
    assert {text_of(answer["result"]) for answer in results} == {"waited"}


@requirement("F-027", "F-032", "E-032", "E-035", "G-007")
async def test_who_waits_for_a_task_that_is_cancelled_is_told(caller: Talk, bench: Bench) -> None:
    task_id = await caller.hand_in("wait")
    collecting = caller.collecting(task_id)
    await asyncio.wait_for(bench.begun.wait(), PATIENCE)
    assert await is_held(caller, collecting)
    await caller.ask("tasks/cancel", taskId=task_id)
    error = (await collecting.answer())["error"]
    assert (error["code"], error["data"]) == (-32602, {"_meta": related(task_id)})
    assert error["message"].startswith("Task was cancelled")
    assert await caller.refusal("tasks/result", taskId=task_id) == error


@requirement("F-047", "R-25")
async def test_who_gives_up_waiting_does_not_stop_the_task(caller: Talk, bench: Bench) -> None:
    task_id = await caller.hand_in("wait")
    collecting = caller.collecting(task_id)
    await caller.ask("ping")
    await caller.notify("notifications/cancelled", {"requestId": collecting.id})
    await caller.ask("ping")
    assert (await caller.get(task_id))["status"] == "working"
    bench.go.set()
    assert text_of(await caller.collect(task_id)) == "waited"


# tasks/cancel


@requirement("F-032", "F-033", "F-034", "G-012", "R-05", "G-007")
async def test_a_cancelled_task_is_written_before_it_is_answered_and_its_work_stops(caller: Talk, bench: Bench) -> None:
    task_id = await caller.hand_in("wait")
    await asyncio.wait_for(bench.begun.wait(), PATIENCE)
    answer = await caller.ask("tasks/cancel", taskId=task_id)
    assert FIELDS <= answer.keys() <= FIELDS | {"statusMessage"}
    assert (answer["taskId"], answer["status"]) == (task_id, "cancelled")
    assert await caller.get(task_id) == answer
    await asyncio.wait_for(bench.stopped.wait(), PATIENCE)


@requirement("F-032", "F-039", "E-032")
async def test_a_task_that_asks_can_be_cancelled(caller: Talk) -> None:
    task_id = await caller.hand_in("ask")
    await caller.told(task_id, "input_required")
    assert (await caller.ask("tasks/cancel", taskId=task_id))["status"] == "cancelled"


@requirement("F-037", "R-04", "F-061", "F-040")
@pytest.mark.parametrize("tool", ["add", "complain", "refuse"])
async def test_a_task_that_has_ended_cannot_be_cancelled(memory: Talk, tool: str) -> None:
    task_id = await ended(memory, tool)
    before = await memory.get(task_id)
    refused = await memory.refusal("tasks/cancel", taskId=task_id)
    assert refused["code"] == -32602
    assert ENDS[tool] in refused["message"]
    assert await memory.get(task_id) == before


@requirement("F-037", "R-04")
async def test_a_task_that_was_cancelled_cannot_be_cancelled_again(caller: Talk) -> None:
    task_id = await cancelled(caller)
    refused = await caller.refusal("tasks/cancel", taskId=task_id)
    assert (refused["code"], "cancelled" in refused["message"]) == (-32602, True)


@requirement("F-040", "F-039")
async def test_what_cancelled_work_still_says_is_dropped(memory: Talk, bench: Bench) -> None:
    done = asyncio.Event()

    @bench.server.tool(task=True)
    async def stubborn() -> str:
        bench.begun.set()
        try:
            await bench.go.wait()
        except asyncio.CancelledError:
            return "too late"
        finally:
            done.set()
        return "in time"

    task_id = await memory.hand_in("stubborn")
    await asyncio.wait_for(bench.begun.wait(), PATIENCE)
    answer = await memory.ask("tasks/cancel", taskId=task_id)
    await asyncio.wait_for(done.wait(), PATIENCE)
    await memory.ask("ping")
    assert await memory.get(task_id) == answer
    assert (await memory.refusal("tasks/result", taskId=task_id))["code"] == -32602


# Which task


@requirement("F-026", "R-27", "E-037", "F-061", "R-15")
@pytest.mark.parametrize("task_id", ["no such task", "", "a" * 1000, "../../etc/passwd", "caf\u00e9"])
async def test_an_unknown_task_is_refused_in_the_same_words_everywhere(memory: Talk, task_id: str) -> None:
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        assert await memory.refusal(method, taskId=task_id) == NOT_FOUND


@requirement("F-061")
@pytest.mark.parametrize("params", [{}, {"taskId": None}, {"taskId": 7}, {"task_id": "a"}], ids=str)
async def test_a_request_without_an_id_is_refused(memory: Talk, params: dict[str, Any]) -> None:
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        assert (await memory.refusal(method, **params))["code"] == -32602


@requirement("E-042", "R-12", "R-15", "R-27", "E-037", "F-030")
async def test_a_task_whose_time_is_over_is_not_found_in_any_way() -> None:
    bench = Bench(policy=Policy(retention=timedelta(milliseconds=1)))
    async with served(bench.server) as place:
        caller = await place.memory()
        created = await caller.ask("tools/call", name="add", arguments={"a": 1}, task={"ttl": 1})
        task_id = created["task"]["taskId"]
        async with asyncio.timeout(PATIENCE):
            while await place.engine.list():
                await place.engine.sweep()
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            assert await caller.refusal(method, taskId=task_id) == NOT_FOUND
        assert await caller.ask("tasks/list") == {"tasks": []}


@requirement("G-007", "R-17", "R-16")
async def test_looks_lists_and_cancellations_do_not_say_which_task_they_belong_to(caller: Talk) -> None:
    task_id = await caller.hand_in("wait")
    said = [
        await caller.get(task_id),
        await caller.ask("tasks/list"),
        await caller.ask("tasks/cancel", taskId=task_id),
        *(heard.message for heard in caller.heard),
    ]
    assert RELATED not in str(said)
    assert HINT not in str(said)
    assert "ttlMs" not in str(said)
    assert "resultType" not in str(said)
