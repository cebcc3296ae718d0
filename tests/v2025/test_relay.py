"""What a task asks, put to the client that waits for it with `tasks/result`; and how its answer comes back."""

from __future__ import annotations

from typing import Any

import pytest

from coatcheck.server import TaskContext
from tests.matrix.peers import Heard, Pending
from tests.requirements.marks import requirement
from tests.v2025.bench import ANN, DECLINE, ROOTS, SAID, Bench
from tests.v2025.wire import INPUT_KEY, STATUS, Talk, Transport, meta_of, related, served, text_of

pytestmark = pytest.mark.anyio

TOOLS = ("ask", "ask_both", "ask_in_turn", "ask_carefully", "ask_url", "think", "look_around", "give_up")
WHO: dict[str, Any] = {
    "mode": "form",
    "message": "Who?",
    "requestedSchema": {
        "title": "Name",
        "type": "object",
        "properties": {"name": {"title": "Name", "type": "string"}},
        "required": ["name"],
    },
}


@pytest.fixture
def bench() -> Bench:
    return Bench(*TOOLS)


async def asked(caller: Talk, tool: str) -> tuple[str, Pending, Heard]:
    """Hand a call in and wait for it; return the task's id, the open request, and the first question."""
    task_id = await caller.hand_in(tool)
    collecting = caller.collecting(task_id)
    return task_id, collecting, await caller.question()


async def said(collecting: Pending) -> str:
    return text_of((await collecting.answer())["result"])


def on_its_stream(transport: Transport, collecting: Pending) -> int | None:
    """Return the stream on which the questions of a request come: its own, if it has one."""
    return collecting.id if transport == "sse" else None


# Every kind of question


@requirement("E-024", "E-026", "F-043", "R-20", "G-006", "G-007", "E-027")
async def test_a_question_is_put_to_who_waits_and_the_answer_goes_to_the_task(
    caller: Talk, transport: Transport
) -> None:
    task_id, collecting, question = await asked(caller, "ask")
    assert question.method == "elicitation/create"
    assert question.params == {**WHO, "_meta": meta_of(question, task_id)}
    assert question.stream == on_its_stream(transport, collecting)
    assert (await caller.get(task_id))["status"] == "input_required"
    await caller.reply(question, ANN)
    assert await said(collecting) == "Ann"
    assert (await caller.get(task_id))["status"] == "completed"


@requirement("E-026", "G-007")
async def test_a_person_may_be_sent_to_a_url(caller: Talk, transport: Transport) -> None:
    task_id, collecting, question = await asked(caller, "ask_url")
    assert question.params == {
        "mode": "url",
        "message": "Sign in",
        "url": "https://example.com/sign-in",
        "elicitationId": "e-1",
        "_meta": meta_of(question, task_id),
    }
    assert question.stream == on_its_stream(transport, collecting)
    await caller.reply(question, {"action": "accept"})
    assert await said(collecting) == "accept"


@requirement("E-025", "E-026", "G-007", "R-20")
async def test_a_model_may_be_asked(caller: Talk, transport: Transport) -> None:
    task_id, collecting, question = await asked(caller, "think")
    assert question.method == "sampling/createMessage"
    assert question.params == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Why?"}}],
        "maxTokens": 9,
        "_meta": meta_of(question, task_id),
    }
    assert question.stream == on_its_stream(transport, collecting)
    await caller.reply(question, SAID)
    assert await said(collecting) == "Because, said m"


@requirement("E-026", "G-007")
async def test_roots_may_be_asked_for(caller: Talk, transport: Transport) -> None:
    task_id, collecting, question = await asked(caller, "look_around")
    assert (question.method, question.params) == ("roots/list", {"_meta": meta_of(question, task_id)})
    assert question.stream == on_its_stream(transport, collecting)
    await caller.reply(question, ROOTS)
    assert await said(collecting) == "file:///a"


# Its name in the task


@requirement("R-20", "S-037")
async def test_every_question_has_a_name_of_its_own(memory: Talk) -> None:
    _, collecting, one = await asked(memory, "ask_both")
    other = await memory.question()
    assert one.params["_meta"][INPUT_KEY] != other.params["_meta"][INPUT_KEY]
    for question in (one, other):
        await memory.reply(question, DECLINE)
    await collecting.answer()


@requirement("R-20")
async def test_a_question_that_is_asked_again_has_the_same_name(memory: Talk) -> None:
    task_id, collecting, question = await asked(memory, "ask")
    await collecting.cancel()
    again = memory.collecting(task_id)
    repeated = await memory.question()
    assert repeated.params == question.params
    await memory.reply(repeated, ANN)
    assert await said(again) == "Ann"


# Several of them


@requirement("E-045", "E-026")
async def test_several_questions_are_asked_at_once_and_answered_in_any_order(caller: Talk) -> None:
    task_id, collecting, one = await asked(caller, "ask_both")
    questions = {question.params["message"]: question for question in (one, await caller.question())}
    await caller.reply(questions["Second?"], DECLINE)
    await caller.ask("ping")
    assert not collecting.is_answered
    assert (await caller.get(task_id))["status"] == "input_required"
    await caller.reply(questions["First?"], ANN)
    assert await said(collecting) == "Ann and decline"


@requirement("E-026", "F-039")
async def test_one_question_after_the_other_is_asked_on_the_same_request(caller: Talk, transport: Transport) -> None:
    _, collecting, first = await asked(caller, "ask_in_turn")
    await caller.reply(first, ANN)
    second = await caller.question()
    assert (first.params["message"], second.params["message"]) == ("First?", "Second?")
    assert first.stream == second.stream == on_its_stream(transport, collecting)
    await caller.reply(second, DECLINE)
    assert await said(collecting) == "accept, then decline"


@requirement("F-039", "F-043", "E-024")
async def test_a_task_asks_goes_on_and_asks_again(memory: Talk) -> None:
    task_id, collecting, first = await asked(memory, "ask_in_turn")
    await memory.reply(first, ANN)
    await memory.reply(await memory.question(), ANN)
    await collecting.answer()
    await memory.told(task_id, "completed")
    statuses = [heard.params["status"] for heard in memory.all_told(STATUS)]
    assert set(statuses) == {"working", "input_required", "completed"}
    assert (statuses[0], statuses[-1]) == ("working", "completed")


@requirement("G-009")
async def test_every_question_is_asked_once(memory: Talk) -> None:
    _, collecting, question = await asked(memory, "ask")
    await memory.reply(question, ANN)
    await collecting.answer()
    await memory.ask("ping")
    assert len([heard for heard in memory.heard if "id" in heard.message]) == 1


@requirement("G-006", "E-026")
async def test_nobody_is_asked_before_somebody_waits(caller: Talk) -> None:
    task_id = await caller.hand_in("ask")
    await caller.told(task_id, "input_required")
    await caller.ask("ping")
    assert [heard for heard in caller.heard if "id" in heard.message] == []
    collecting = caller.collecting(task_id)
    await caller.reply(await caller.question(), ANN)
    assert await said(collecting) == "Ann"


# Answers


@requirement("E-027")
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_may_not_want_to_answer(memory: Talk, action: str) -> None:
    _, collecting, question = await asked(memory, "ask")
    await memory.reply(question, {"action": action})
    assert await said(collecting) == action


@requirement("E-027", "R-02")
async def test_an_error_for_an_answer_is_an_error_in_the_tool(caller: Talk) -> None:
    _, collecting, question = await asked(caller, "ask_carefully")
    await caller.refuse(question, code=-1, message="User rejected", data={"why": 7})
    assert await said(collecting) == "-1: User rejected {'why': 7}"


@requirement("R-02", "E-031")
async def test_an_error_that_the_tool_does_not_expect_fails_the_task_as_it_would_fail_the_call(memory: Talk) -> None:
    task_id, collecting, question = await asked(memory, "ask")
    await memory.refuse(question, code=-1, message="User rejected", data={"why": 7})
    error = (await collecting.answer())["error"]
    assert error == {"code": -1, "message": "User rejected", "data": {"why": 7, "_meta": related(task_id)}}
    assert (await memory.get(task_id))["status"] == "failed"


@requirement("E-027")
@pytest.mark.parametrize(
    "answer",
    [{}, {"action": "perhaps"}, {"action": "accept"}, {"action": "accept", "content": {"name": 7}}],
    ids=str,
)
async def test_an_answer_that_does_not_fit_does_to_the_task_what_it_does_to_a_call(
    memory: Talk, answer: dict[str, Any]
) -> None:
    task_id, collecting, question = await asked(memory, "ask")
    await memory.reply(question, answer)
    result = (await collecting.answer())["result"]
    call = memory.begin("tools/call", {"name": "ask", "arguments": {}})
    await memory.reply(await memory.question(), answer)
    assert result["isError"] is True
    assert result == {**(await call.answer())["result"], "_meta": related(task_id)}
    assert (await memory.get(task_id))["status"] == "failed"


@requirement("E-027")
async def test_an_answer_that_does_not_fit_is_an_error_to_a_tool_that_asks_through_its_task(
    memory: Talk, bench: Bench
) -> None:
    @bench.server.tool(task=True)
    async def choose(task: TaskContext) -> str:
        return (await task.elicit("Which?", {"type": "object", "properties": {"which": {"enum": ["a"]}}}))["action"]

    _, collecting, question = await asked(memory, "choose")
    await memory.reply(question, {"action": "accept", "content": {"which": "b"}})
    answer = await collecting.answer()
    assert answer.get("error", {}).get("code") == -32602 or answer["result"]["isError"] is True


@requirement("E-025")
@pytest.mark.parametrize(("tool", "answer"), [("think", {"text": "Because"}), ("look_around", {"roots": "none"})])
async def test_an_answer_of_another_kind_does_not_hang_the_task(
    memory: Talk, tool: str, answer: dict[str, Any]
) -> None:
    task_id, collecting, question = await asked(memory, tool)
    await memory.reply(question, answer)
    ended = await collecting.answer()
    assert "error" in ended or ended["result"]["isError"] is True
    assert (await memory.get(task_id))["status"] == "failed"


# What cannot be asked


@requirement("G-006", "T-02")
@pytest.mark.parametrize(
    ("tool", "capability"), [("ask", "elicitation"), ("think", "sampling"), ("look_around", "roots")]
)
async def test_what_a_client_did_not_declare_is_an_error_at_once(bench: Bench, tool: str, capability: str) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(capabilities={})
        task_id = await caller.hand_in(tool)
        error = await caller.refusal("tasks/result", taskId=task_id)
        assert [heard for heard in caller.heard if "id" in heard.message] == []
    assert error["code"] == -32021
    assert capability in error["message"]
    assert error["data"]["requiredCapabilities"] == {capability: {}}


@requirement("G-006")
async def test_a_url_is_an_error_at_once_for_a_client_that_declared_forms_only(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(capabilities={"elicitation": {"form": {}}})
        task_id = await caller.hand_in("ask_url")
        await caller.until(lambda heard: heard.params["taskId"] == task_id and heard.params["status"] != "working")
        assert (await caller.get(task_id))["status"] == "failed"


@requirement("E-024")
async def test_a_bare_elicitation_capability_stands_for_forms(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(capabilities={"elicitation": {}})
        _, collecting, question = await asked(caller, "ask")
        await caller.reply(question, ANN)
        assert await said(collecting) == "Ann"


# When the task ends meanwhile


@requirement("G-009", "F-032")
async def test_an_answer_that_comes_after_the_end_changes_nothing(caller: Talk) -> None:
    task_id, collecting, question = await asked(caller, "ask")
    cancelled = await caller.ask("tasks/cancel", taskId=task_id)
    assert (await collecting.answer())["error"]["code"] == -32602
    await caller.reply(question, ANN)
    await caller.ask("ping")
    assert await caller.get(task_id) == cancelled


@requirement("G-009", "R-20")
async def test_a_question_the_tool_gives_up_on_is_taken_back(memory: Talk, bench: Bench) -> None:
    _, collecting, first = await asked(memory, "give_up")
    bench.go.set()
    second = await memory.question()
    assert (first.params["message"], second.params["message"]) == ("Who?", "Anybody?")
    withdrawn = await memory.until(lambda heard: heard.method == "notifications/cancelled")
    assert withdrawn.params["requestId"] == first.message["id"]
    await memory.reply(second, DECLINE)
    assert await said(collecting) == "decline"
