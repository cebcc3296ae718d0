"""Clients that keep a question as a task of their own: they are polled, and asked once however often they reconnect."""

from __future__ import annotations

from typing import Any

import pytest

from tests.matrix.peers import Heard, Pending
from tests.requirements.marks import requirement
from tests.v2025.bench import ANN, DECLINE, ROOTS, SAID, Bench
from tests.v2025.wire import (
    ASKABLE,
    NEW,
    OLD,
    WITH_TASKS,
    OverHTTP,
    Place,
    Talk,
    Transport,
    meta_of,
    related,
    served,
    text_of,
)

pytestmark = pytest.mark.anyio

ELICITS: dict[str, Any] = {"requests": {"elicitation": {"create": {}}}}
SAMPLES: dict[str, Any] = {"requests": {"sampling": {"createMessage": {}}}}
BOTH: dict[str, Any] = {"cancel": {}, "requests": {**ELICITS["requests"], **SAMPLES["requests"]}}
KEEPS: dict[str, Any] = {**ASKABLE, "tasks": BOTH}
"""The capabilities of a client that takes questions as tasks."""


@pytest.fixture
def bench() -> Bench:
    return Bench("ask", "ask_and_wait", "ask_carefully", "think", "look_around")


def a_task(status: str = "working", task_id: str = "theirs") -> dict[str, Any]:
    moment = "2026-01-01T00:00:00Z"
    times = {"createdAt": moment, "lastUpdatedAt": moment, "ttl": None, "pollInterval": 50}
    return {"taskId": task_id, "status": status, **times}


async def said(collecting: Pending) -> str:
    return text_of((await collecting.answer())["result"])


async def handed_in(place: Place, tool: str = "ask", transport: Transport = "memory") -> tuple[Talk, str, Pending]:
    """Let a client take the question of a task as a task; return it, the task's id, and the request that waits."""
    caller = await place.connect(transport, capabilities=KEEPS)
    task_id = await caller.hand_in(tool)
    collecting = caller.collecting(task_id)
    await caller.reply(await caller.question(), {"task": a_task()})
    return caller, task_id, collecting


def questions(caller: Talk) -> list[Heard]:
    return [heard for heard in caller.heard if "id" in heard.message and "message" in heard.params]


# Handing a question in


@requirement("G-001", "E-053")
async def test_a_client_that_declared_it_is_given_a_question_as_a_task(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(capabilities=KEEPS)
        task_id = await caller.hand_in("ask")
        caller.collecting(task_id)
        question = await caller.question()
        ttl = (await caller.get(task_id))["ttl"]
    assert question.method == "elicitation/create"
    assert question.params["task"] == {"ttl": ttl}
    assert question.params["_meta"] == meta_of(question, task_id)
    assert question.params["message"] == "Who?"


@requirement("G-001", "E-053")
async def test_a_model_is_asked_as_a_task_too(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller, _, collecting = await handed_in(place, "think")
        assert caller.heard[-1].params["task"]["ttl"] > 0
        await caller.reply(await caller.question("tasks/get"), a_task("completed"))
        await caller.reply(await caller.question("tasks/result"), {**SAID, "_meta": related("theirs")})
        assert await said(collecting) == "Because, said m"


@requirement("G-001", "G-002")
@pytest.mark.parametrize(
    ("tasks", "tool", "is_task"),
    [
        (ELICITS, "ask", True),
        (ELICITS, "think", False),
        (SAMPLES, "ask", False),
        (SAMPLES, "think", True),
        ({}, "ask", False),
        ({"requests": {}}, "ask", False),
        ({"requests": {"elicitation": {}}}, "ask", False),
        (BOTH, "look_around", False),
    ],
    ids=str,
)
async def test_only_what_a_client_declared_is_given_to_it_as_a_task(
    bench: Bench, tasks: dict[str, Any], tool: str, is_task: bool
) -> None:
    answers = {"ask": ANN, "think": SAID, "look_around": ROOTS}
    async with served(bench.server) as place:
        caller = await place.memory(capabilities={**ASKABLE, "tasks": tasks})
        collecting = caller.collecting(await caller.hand_in(tool))
        question = await caller.question()
        assert ("task" in question.params) is is_task
        await caller.reply(question, answers[tool])
        await collecting.answer()


@requirement("G-002")
async def test_who_does_not_know_of_the_task_is_asked_plainly(bench: Bench) -> None:
    async with served(bench.server) as place:
        for version in (OLD, "2025-11-25"):
            caller = await place.memory(version=version, capabilities=KEEPS)
            call = caller.begin("tools/call", {"name": "ask", "arguments": {}})
            question = await caller.question()
            assert "task" not in question.params
            assert "_meta" not in question.params
            await caller.reply(question, ANN)
            assert await said(call) == "Ann"


# Collecting the answer


@requirement("G-001", "E-053", "F-039")
async def test_the_client_is_polled_and_its_answer_collected(bench: Bench, transport: Transport) -> None:
    async with served(bench.server, transport) as place:
        caller, task_id, collecting = await handed_in(place, transport=transport)
        for status in ("working", "input_required", "completed"):
            poll = await caller.question()
            assert (poll.method, poll.params) == ("tasks/get", {"taskId": "theirs"})
            await caller.reply(poll, a_task(status))
        final = await caller.question()
        assert (final.method, final.params) == ("tasks/result", {"taskId": "theirs"})
        assert (await caller.get(task_id))["status"] == "input_required"
        await caller.reply(final, {**ANN, "_meta": related("theirs")})
        assert await said(collecting) == "Ann"


@requirement("G-002", "G-001")
async def test_a_client_may_answer_at_once_all_the_same(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(capabilities=KEEPS)
        collecting = caller.collecting(await caller.hand_in("ask"))
        await caller.reply(await caller.question(), DECLINE)
        assert await said(collecting) == "decline"
        assert [heard for heard in caller.heard if heard.method.startswith("tasks/")] == []


@requirement("E-053", "R-02")
@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_a_task_of_the_client_that_fails_is_an_error_in_the_tool(bench: Bench, status: str) -> None:
    async with served(bench.server) as place:
        caller, _, collecting = await handed_in(place, "ask_carefully")
        await caller.reply(await caller.question("tasks/get"), a_task(status))
        await caller.refuse(await caller.question("tasks/result"), code=-1, message="Nobody there")
        assert await said(collecting) == "-1: Nobody there None"


@requirement("E-053")
async def test_a_client_that_lost_its_task_is_an_error_in_the_tool(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller, _, collecting = await handed_in(place, "ask_carefully")
        await caller.refuse(await caller.question("tasks/get"), code=-32602, message="Task not found")
        assert await said(collecting) == "-32602: Task not found None"


@requirement("E-053")
async def test_a_client_that_refuses_the_question_is_an_error_in_the_tool(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(capabilities=KEEPS)
        collecting = caller.collecting(await caller.hand_in("ask_carefully"))
        await caller.refuse(await caller.question(), code=-32600, message="Not now")
        assert await said(collecting) == "-32600: Not now None"


@requirement("E-053")
@pytest.mark.parametrize("answer", [{"task": {}}, {"task": None}, {"task": {"taskId": 7}}, {"task": "a"}], ids=str)
async def test_a_task_without_an_id_is_no_answer(bench: Bench, answer: dict[str, Any]) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(capabilities=KEEPS)
        collecting = caller.collecting(await caller.hand_in("ask"))
        await caller.reply(await caller.question(), answer)
        assert (await collecting.answer())["result"]["isError"] is True


@requirement("E-053")
async def test_an_answer_of_the_clients_task_that_does_not_fit_is_an_error_in_the_tool(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller, _, collecting = await handed_in(place)
        await caller.reply(await caller.question("tasks/get"), a_task("completed"))
        await caller.reply(await caller.question("tasks/result"), {"action": "perhaps"})
        assert (await collecting.answer())["result"]["isError"] is True


# Nobody is asked twice


@requirement("E-053", "R-25")
async def test_who_waits_again_is_not_asked_again(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller, task_id, lost = await handed_in(place)
        await caller.question("tasks/get")
        await caller.cancel(lost)
        collecting = caller.collecting(task_id)
        await caller.reply(await caller.question("tasks/get"), a_task("completed"))
        await caller.reply(await caller.question("tasks/result"), ANN)
        assert await said(collecting) == "Ann"
        assert len(questions(caller)) == 1


@requirement("E-053", "R-25")
async def test_who_lost_its_connection_within_a_session_is_not_asked_again(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller, task_id, lost = await handed_in(place, transport="sse")
        assert isinstance(caller, OverHTTP)
        await caller.question("tasks/get")
        caller.drop(lost)
        collecting = caller.collecting(task_id)
        poll = await caller.until(lambda heard: heard.stream == collecting.id)
        assert poll.method == "tasks/get"
        await caller.reply(poll, a_task("completed"))
        await caller.reply(await caller.until(lambda heard: heard.method == "tasks/result"), ANN)
        assert await said(collecting) == "Ann"
        assert len(questions(caller)) == 1


# What is not needed any more


@requirement("E-053", "G-009", "X-01")
@pytest.mark.parametrize("tool", ["ask", "ask_and_wait"])
async def test_a_question_that_was_answered_elsewhere_is_taken_back(bench: Bench, tool: str) -> None:
    async with served(bench.server) as place:
        caller, task_id, _ = await handed_in(place, tool)
        await caller.question("tasks/get")
        other = await place.memory(NEW, WITH_TASKS)
        (key,) = (await other.get(task_id))["inputRequests"]
        await other.ask("tasks/update", taskId=task_id, inputResponses={key: ANN})
        assert (await caller.question("tasks/cancel")).params == {"taskId": "theirs"}
        bench.go.set()


async def _is_taken_back(caller: Talk) -> bool:
    """Whether the client was told to drop its task, once a request was answered that came after the end."""
    for _ in range(5):
        await caller.ask("ping")
    return any(heard.method == "tasks/cancel" for heard in caller.heard)


@requirement("E-053", "G-009")
async def test_a_question_is_taken_back_when_the_task_is_cancelled(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller, task_id, collecting = await handed_in(place)
        await caller.question("tasks/get")
        await caller.ask("tasks/cancel", taskId=task_id)
        await collecting.answer()
        assert await _is_taken_back(caller)


@requirement("E-053", "G-009")
async def test_a_question_is_taken_back_when_another_who_waits_answered_it(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller, task_id, collecting = await handed_in(place)
        await caller.question("tasks/get")
        other = await place.memory()
        theirs = other.collecting(task_id)
        await other.reply(await other.question(), ANN)
        assert (await said(theirs), await said(collecting)) == ("Ann", "Ann")
        assert await _is_taken_back(caller)
