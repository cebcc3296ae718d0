"""What a held call asks: on its own stream where the client can be asked there, and on the ticket otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from coatcheck.server import TaskPolicy
from tests.requirements.marks import requirement
from tests.taskless.tickets import a_bench, a_ticket, complaint, ticket
from tests.v2025.bench import ANN, ROOTS, SAID, Bench
from tests.v2025.wire import NEW, OLD, RELATED, VERSION, Talk, Transport, served, text_of

pytestmark = pytest.mark.anyio

QUESTIONS = {
    "ask": "elicitation/create",
    "ask_url": "elicitation/create",
    "think": "sampling/createMessage",
    "look_around": "roots/list",
}
ANSWERS: dict[str, dict[str, Any]] = {
    "ask": ANN,
    "ask_url": {"action": "accept"},
    "think": SAID,
    "look_around": ROOTS,
}
SAYS = {"ask": "Ann", "ask_url": "accept", "think": "Because, said m", "look_around": "file:///a"}


@pytest.fixture
def bench() -> Bench:
    return a_bench(*QUESTIONS, "ask_both", "ask_in_turn", "ask_carefully", task=TaskPolicy(promote_after=None))


async def asks(caller: Talk, tool: str = "ask") -> dict[str, Any]:
    """Call a tool that asks, and return the task on the ticket."""
    task = ticket(await caller.use(tool))
    assert task["status"] == "input_required"
    return task


async def answered(caller: Talk, task_id: str) -> str:
    return text_of(await caller.use("wait_task", task_id=task_id))


# Directly


@requirement("X-11", "E-024")
@pytest.mark.parametrize("version", [OLD, VERSION])
@pytest.mark.parametrize("transport", ["memory", "sse"])
@pytest.mark.parametrize("tool", QUESTIONS)
async def test_who_can_be_asked_directly_is(bench: Bench, transport: Transport, version: str, tool: str) -> None:
    async with served(bench.server, transport) as place:
        caller = await place.connect(transport, version=version)
        call = caller.begin("tools/call", {"name": tool, "arguments": {}})
        question = await caller.question()
        assert question.method == QUESTIONS[tool]
        assert question.stream == (call.id if transport == "sse" else None)
        assert not {"_meta", "task"} & question.params.keys()
        await caller.reply(question, ANSWERS[tool])
        assert text_of((await call.answer())["result"]) == SAYS[tool]


@requirement("X-11")
async def test_no_ticket_is_given_while_a_person_thinks() -> None:
    bench = a_bench("ask", task=TaskPolicy(promote_after=0.01), heartbeat=0.01)
    async with served(bench.server) as place:
        caller = await place.memory()
        call = caller.begin("tools/call", {"name": "ask", "arguments": {}, "_meta": {"progressToken": 1}})
        question = await caller.question()
        for count in range(2, 6):
            await caller.until(lambda _, count=count: len(caller.heard) >= count)
        assert not call.is_answered
        await caller.reply(question, ANN)
        assert text_of((await call.answer())["result"]) == "Ann"


@requirement("X-11", "E-045")
async def test_several_questions_are_asked_directly_at_once(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.http(OLD)
        call = caller.begin("tools/call", {"name": "ask_both", "arguments": {}})
        for question in (await caller.question(), await caller.question()):
            await caller.reply(question, ANN)
        assert text_of((await call.answer())["result"]) == "Ann and Ann"


@requirement("X-12", "X-11")
@pytest.mark.parametrize("version", [OLD, VERSION])
async def test_who_waits_with_a_ticket_can_be_asked_directly_too(version: str) -> None:
    bench = a_bench("ask", task=TaskPolicy(promote_after=0.01))
    async with served(bench.server) as place:
        mute, able = await place.memory(version, {}), await place.memory(version)
        task_id = (await asks(mute))["taskId"]
        waiting = able.begin("tools/call", {"name": "wait_task", "arguments": {"task_id": task_id}})
        await able.reply(await able.question(), ANN)
        assert text_of((await waiting.answer())["result"]) == "Ann"


# On the ticket


@requirement("X-11", "X-12", "E-024")
@pytest.mark.parametrize("tool", QUESTIONS)
async def test_who_cannot_be_asked_directly_finds_the_question_on_the_ticket(
    bench: Bench, version: str, tool: str
) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(version, {})
        task = await asks(caller, tool)
        (question,) = task["questions"]
        assert question.keys() == {"question", "method", "params"}
        assert question["method"] == QUESTIONS[tool]
        assert caller.heard == []


@requirement("X-11")
@pytest.mark.parametrize("version", [OLD, VERSION])
async def test_where_answers_are_no_streams_the_question_is_on_the_ticket(bench: Bench, version: str) -> None:
    async with served(bench.server, "json") as place:
        caller = await place.http(version)
        assert (await asks(caller))["questions"][0]["params"]["message"] == "Who?"


@requirement("X-11")
async def test_who_declared_forms_only_finds_a_url_on_the_ticket(bench: Bench) -> None:
    async with served(bench.server) as place:
        for version in (OLD, VERSION):
            caller = await place.memory(version, {"elicitation": {"form": {}} if version == VERSION else {}})
            (question,) = (await asks(caller, "ask_url"))["questions"]
            assert question["params"]["url"] == "https://example.com/sign-in"


@requirement("X-12", "T-02")
async def test_a_ticket_tells_in_words_what_is_asked(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(NEW, {})
        text = text_of(await caller.use("ask"))
    for word in ("Who?", "name", "answer_task", "wait_task"):
        assert word in text


@requirement("X-12", "T-02")
@pytest.mark.parametrize(
    ("tool", "word"), [("think", "Why?"), ("ask_url", "https://example.com/sign-in"), ("ask_both", "question")]
)
async def test_the_words_on_a_ticket_are_enough_to_answer_it(bench: Bench, tool: str, word: str) -> None:
    async with served(bench.server) as place:
        text = text_of(await (await place.memory(NEW, {})).use(tool))
    assert word in text


# answer_task


@requirement("X-12", "R-20")
async def test_an_answer_lets_the_task_go_on(bench: Bench, transport: Transport, version: str) -> None:
    async with served(bench.server, transport) as place:
        caller = await place.connect(transport, version=version, capabilities={})
        task_id = (await asks(caller))["taskId"]
        given = await caller.use("answer_task", task_id=task_id, content={"name": "Ann"})
        assert ticket(given)["taskId"] == task_id
        assert "questions" not in ticket(given)
        result = await caller.use("wait_task", task_id=task_id)
        assert (text_of(result), result["_meta"][RELATED]) == ("Ann", {"taskId": task_id})


@requirement("X-12", "E-027")
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_question_may_be_turned_down(bench: Bench, version: str, action: str) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(version, {})
        task_id = (await asks(caller))["taskId"]
        ticket(await caller.use("answer_task", task_id=task_id, action=action))
        assert await answered(caller, task_id) == action


@requirement("X-12")
async def test_a_visit_to_a_url_is_confirmed_without_content(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(NEW, {})
        task_id = (await asks(caller, "ask_url"))["taskId"]
        ticket(await caller.use("answer_task", task_id=task_id))
        assert await answered(caller, task_id) == "accept"


@requirement("X-12", "E-025")
async def test_a_model_is_answered_for_with_text_or_a_whole_message(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(NEW, {})
        for content, said in (("Because", "Because, said unknown"), (SAID, "Because, said m")):
            task_id = (await asks(caller, "think"))["taskId"]
            ticket(await caller.use("answer_task", task_id=task_id, content=content))
            assert await answered(caller, task_id) == said


@requirement("X-12")
async def test_roots_are_answered_with_an_object(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(NEW, {})
        task_id = (await asks(caller, "look_around"))["taskId"]
        complaint(await caller.use("answer_task", task_id=task_id, content="none"))
        ticket(await caller.use("answer_task", task_id=task_id, content=ROOTS))
        assert await answered(caller, task_id) == "file:///a"


@requirement("X-12", "E-045")
async def test_of_several_questions_the_answer_says_which(bench: Bench, version: str) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(version, {})
        task = await asks(caller, "ask_both")
        keys = {question["params"]["message"]: question["question"] for question in task["questions"]}
        refused = complaint(await caller.use("answer_task", task_id=task["taskId"], content={"name": "Ann"}))
        assert all(key in refused for key in keys.values())
        second = {"task_id": task["taskId"], "question": keys["Second?"], "action": "decline"}
        left = ticket(await caller.use("answer_task", **second))
        assert [question["question"] for question in left["questions"]] == [keys["First?"]]
        ticket(await caller.use("answer_task", task_id=task["taskId"], content={"name": "Ann"}))
        assert await answered(caller, task["taskId"]) == "Ann and decline"


@requirement("X-12")
async def test_the_next_question_is_on_the_next_ticket(bench: Bench, version: str) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(version, {})
        task = await asks(caller, "ask_in_turn")
        await caller.use("answer_task", task_id=task["taskId"], content={"name": "Ann"})
        again = ticket(await caller.use("wait_task", task_id=task["taskId"]))
        assert [question["params"]["message"] for question in again["questions"]] == ["Second?"]
        await caller.use("answer_task", task_id=task["taskId"], action="decline")
        assert await answered(caller, task["taskId"]) == "accept, then decline"


@requirement("X-12", "T-02")
@pytest.mark.parametrize(
    "answer",
    [{}, {"content": {}}, {"content": {"name": 7}}, {"content": "Ann"}, {"content": {"name": "A"}, "question": "no"}],
    ids=str,
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    bench: Bench, answer: dict[str, Any]
) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(NEW, {})
        task = await asks(caller)
        complaint(await caller.use("answer_task", task_id=task["taskId"], **answer))
        assert ticket(await caller.use("get_task", task_id=task["taskId"])) == task
        ticket(await caller.use("answer_task", task_id=task["taskId"], content={"name": "Ann"}))
        assert await answered(caller, task["taskId"]) == "Ann"


@requirement("X-12")
async def test_an_action_there_is_not_is_refused(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(NEW, {})
        task_id = (await asks(caller))["taskId"]
        assert "action" in complaint(await caller.use("answer_task", task_id=task_id, action="perhaps"))


@requirement("X-12")
async def test_an_answer_to_what_has_ended_shows_how_it_ended(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(NEW, {})
        task_id = (await asks(caller))["taskId"]
        await caller.use("answer_task", task_id=task_id, content={"name": "Ann"})
        await answered(caller, task_id)
        late = await caller.use("answer_task", task_id=task_id, content={"name": "Bea"})
        assert text_of(late) == "Ann"


@requirement("X-12")
async def test_an_answer_to_what_asks_nothing_is_refused() -> None:
    bench = a_bench("wait", task=TaskPolicy(promote_after=0.01))
    async with served(bench.server) as place:
        caller = await place.memory(NEW, {})
        task_id = await a_ticket(caller, "wait")
        assert "none" in complaint(await caller.use("answer_task", task_id=task_id, content={"name": "Ann"}))
