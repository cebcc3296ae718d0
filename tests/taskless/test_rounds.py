"""Clients of 2026-07-28 without tasks that can be asked: in rounds of their call, as that version has it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coatcheck.server import TaskPolicy
from tests.matrix.peers import PATIENCE
from tests.requirements.marks import requirement
from tests.taskless.tickets import a_bench, ticket
from tests.v2025.bench import ANN, DECLINE, ROOTS, SAID, Bench, guarded
from tests.v2025.wire import ASKABLE, NEW, Talk, Transport, outcome, served, text_of

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
QUESTIONS: dict[str, tuple[str, Json, str]] = {
    "ask": ("elicitation/create", ANN, "Ann"),
    "ask_url": ("elicitation/create", {"action": "accept"}, "accept"),
    "think": ("sampling/createMessage", SAID, "Because, said m"),
    "look_around": ("roots/list", ROOTS, "file:///a"),
}


@pytest.fixture
def bench() -> Bench:
    return a_bench(*QUESTIONS, "ask_both", "ask_in_turn", "ask_and_wait", task=TaskPolicy(promote_after=None))


async def asks(caller: Talk, tool: str) -> Json:
    """Call a tool that asks, and return the round its answer is."""
    result = await caller.use(tool)
    assert result["resultType"] == "input_required"
    assert not {"content", "structuredContent", "task", "taskId"} & result.keys()
    return result


async def reply(caller: Talk, tool: str, asked: Json, answers: Json) -> Json:
    """Make the call again with answers, and return the message that answers it."""
    params = {"name": tool, "arguments": {}, "inputResponses": answers, "requestState": asked["requestState"]}
    return await caller.request("tools/call", params)


def key(asked: Json, message: str) -> str:
    (found,) = [one for one, request in asked["inputRequests"].items() if request["params"]["message"] == message]
    return found


@requirement("X-11", "E-024", "R-20")
@pytest.mark.parametrize("tool", QUESTIONS)
async def test_a_call_is_answered_with_the_question_and_made_again_with_the_answer(bench: Bench, tool: str) -> None:
    method, answer, said = QUESTIONS[tool]
    async with served(bench.server) as place:
        caller = await place.memory(NEW, ASKABLE)
        asked = await asks(caller, tool)
        ((name, request),) = asked["inputRequests"].items()
        assert request["method"] == method
        assert text_of(outcome(await reply(caller, tool, asked, {name: answer}))) == said
        assert caller.heard == []


@requirement("X-11", "R-20")
async def test_rounds_are_the_same_on_every_transport(bench: Bench, transport: Transport) -> None:
    async with served(bench.server, transport) as place:
        caller = await place.connect(transport, version=NEW)
        asked = await asks(caller, "ask")
        result = outcome(await reply(caller, "ask", asked, {key(asked, "Who?"): DECLINE}))
        assert (text_of(result), result["resultType"]) == ("decline", "complete")


@requirement("X-11", "E-024")
async def test_the_body_goes_on_where_it_asked(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(NEW)
        asked = await asks(caller, "ask")
        await reply(caller, "ask", asked, {key(asked, "Who?"): ANN})
    assert bench.runs == ["ask"], "it was not begun again"


@requirement("X-11")
async def test_one_question_after_the_other_is_one_round_after_the_other(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(NEW)
        first = await asks(caller, "ask_in_turn")
        second = outcome(await reply(caller, "ask_in_turn", first, {key(first, "First?"): ANN}))
        assert second["resultType"] == "input_required"
        done = outcome(await reply(caller, "ask_in_turn", second, {key(second, "Second?"): DECLINE}))
        assert text_of(done) == "accept, then decline"


@requirement("X-11", "E-045")
async def test_several_questions_are_one_round_and_what_is_left_another(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(NEW)
        asked = await asks(caller, "ask_both")
        assert len(asked["inputRequests"]) == 2
        left = outcome(await reply(caller, "ask_both", asked, {key(asked, "Second?"): DECLINE}))
        assert set(left["inputRequests"]) == {key(asked, "First?")}
        done = outcome(await reply(caller, "ask_both", left, {key(asked, "First?"): ANN}))
        assert text_of(done) == "Ann and decline"


@requirement("X-11", "T-02")
@pytest.mark.parametrize("answer", [{"action": "accept", "content": {"name": 7}}, {"action": "accept"}], ids=str)
async def test_an_answer_that_does_not_fit_is_refused_and_may_be_given_again(bench: Bench, answer: Json) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(NEW)
        asked = await asks(caller, "ask")
        name = key(asked, "Who?")
        refused = (await reply(caller, "ask", asked, {name: answer}))["error"]
        assert (refused["code"], name in refused["message"]) == (-32602, True)
        assert text_of(outcome(await reply(caller, "ask", asked, {name: ANN}))) == "Ann"


@requirement("X-11")
async def test_a_round_without_an_answer_asks_again(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(NEW)
        asked = await asks(caller, "ask")
        again = outcome(await reply(caller, "ask", asked, {}))
        assert again["inputRequests"] == asked["inputRequests"]


@requirement("X-11", "X-12")
@pytest.mark.parametrize(
    ("tool", "capabilities"),
    [
        ("ask", {}),
        ("ask", {"sampling": {}}),
        ("ask_url", {"elicitation": {"form": {}}}),
        ("think", {"elicitation": {}}),
        ("look_around", {"sampling": {}}),
    ],
    ids=str,
)
async def test_what_a_client_did_not_declare_is_asked_on_a_ticket(bench: Bench, tool: str, capabilities: Json) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(NEW, capabilities)
        assert len(ticket(await caller.use(tool))["questions"]) == 1


@requirement("X-11", "R-10", "R-27")
async def test_the_round_of_another_user_cannot_be_answered() -> None:
    async with served(guarded("ask", "ask_both", fallback_tools=True).server) as place:
        ann, bob = await place.http(NEW, token="ann"), await place.http(NEW, token="bob")
        asked = await asks(ann, "ask")
        answers = {key(asked, "Who?"): DECLINE}
        assert (await reply(bob, "ask", asked, answers))["error"]["code"] == -32602
        assert (await reply(ann, "ask_both", asked, answers))["error"]["code"] == -32602
        state: str = asked["requestState"]
        middle = len(state) // 2  # not the end, whose last bits may mean nothing
        broken = {"requestState": f"{state[:middle]}{'B' if state[middle] == 'A' else 'A'}{state[middle + 1 :]}"}
        assert (await reply(ann, "ask", broken, answers))["error"]["code"] == -32602
        assert text_of(outcome(await reply(ann, "ask", asked, answers))) == "decline"


@requirement("X-11")
async def test_a_name_that_only_looks_like_a_round_is_refused(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory(NEW)
        await asks(caller, "ask")
        for state in ("coatcheck:x", "coatcheck:"):
            assert (await reply(caller, "ask", {"requestState": state}, {}))["error"]["code"] == -32602


@requirement("X-11", "X-12")
async def test_what_is_slow_after_the_answer_is_given_a_ticket() -> None:
    bench = a_bench("ask_and_wait", task=TaskPolicy(promote_after=0.3))
    async with served(bench.server) as place:
        caller = await place.memory(NEW)
        asked = await asks(caller, "ask_and_wait")
        result = outcome(await reply(caller, "ask_and_wait", asked, {key(asked, "Who?"): ANN}))
        task_id = ticket(result)["taskId"]
        await asyncio.wait_for(bench.begun.wait(), PATIENCE)
        bench.go.set()
        assert text_of(await caller.use("wait_task", task_id=task_id)) == "accept"
