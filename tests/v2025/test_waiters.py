"""Who is asked if several wait for a task, and what becomes of a question when whoever was asked is gone."""

from __future__ import annotations

import asyncio

import pytest

from tests.matrix.peers import PATIENCE, Heard, Pending
from tests.requirements.marks import requirement
from tests.v2025.bench import ANN, DECLINE, Bench, guarded
from tests.v2025.wire import NEW, WITH_TASKS, OverHTTP, Talk, Transport, served, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench() -> Bench:
    return Bench("ask", "wait")


async def said(collecting: Pending) -> str:
    return text_of((await collecting.answer())["result"])


async def taken_back(caller: Talk, question: Heard) -> None:
    """Wait until the client is told that a question needs no answer any more."""
    number = question.message["id"]
    await caller.until(lambda heard: heard.method == "notifications/cancelled" and heard.params["requestId"] == number)


# Several who wait


@requirement("E-026", "R-20")
async def test_of_several_who_wait_the_one_who_came_last_is_asked(bench: Bench) -> None:
    async with served(bench.server) as place:
        first, last = await place.memory(), await place.memory()
        task_id = await first.hand_in("ask")
        one = first.collecting(task_id)
        question = await first.question()
        other = last.collecting(task_id)
        asked_again = await last.question()
        await taken_back(first, question)
        await last.reply(asked_again, ANN)
        assert (await said(one), await said(other)) == ("Ann", "Ann")


@requirement("E-026")
async def test_on_one_connection_the_newest_request_is_the_one_that_asks(caller: Talk, transport: Transport) -> None:
    task_id = await caller.hand_in("ask")
    older = caller.collecting(task_id)
    first = await caller.question()
    newer = caller.collecting(task_id)
    second = await caller.question()
    if transport == "sse":
        assert (first.stream, second.stream) == (older.id, newer.id)
    await caller.reply(second, ANN)
    assert (await said(older), await said(newer)) == ("Ann", "Ann")


@requirement("E-026")
async def test_when_the_newest_gives_up_the_next_newest_is_asked(bench: Bench) -> None:
    async with served(bench.server) as place:
        first, last = await place.memory(), await place.memory()
        task_id = await first.hand_in("ask")
        one = first.collecting(task_id)
        await first.question()
        other = last.collecting(task_id)
        await last.question()
        await last.cancel(other)
        await first.reply(await first.question(), ANN)
        assert await said(one) == "Ann"


@requirement("E-026", "R-20")
async def test_who_cannot_be_asked_does_not_keep_others_from_being_asked(bench: Bench) -> None:
    async with served(bench.server) as place:
        able, mute = await place.memory(), await place.memory(capabilities={})
        task_id = await able.hand_in("ask")
        waiting = mute.collecting(task_id)
        await mute.ask("ping")
        collecting = able.collecting(task_id)
        await able.reply(await able.question(), ANN)
        assert (await said(collecting), await said(waiting)) == ("Ann", "Ann")


@requirement("E-026", "R-20")
async def test_who_cannot_be_asked_does_not_take_the_asking_over(bench: Bench) -> None:
    async with served(bench.server) as place:
        able, mute = await place.memory(), await place.memory(capabilities={})
        task_id = await able.hand_in("ask")
        collecting = able.collecting(task_id)
        question = await able.question()
        waiting = mute.collecting(task_id)
        await mute.ask("ping")
        await able.ask("ping")
        assert "notifications/cancelled" not in {heard.method for heard in able.heard}
        await able.reply(question, ANN)
        assert (await said(collecting), await said(waiting)) == ("Ann", "Ann")


@requirement("E-026", "X-01")
async def test_a_question_that_is_answered_elsewhere_is_taken_back(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller, other = await place.memory(), await place.memory(NEW, WITH_TASKS)
        task_id = await caller.hand_in("ask")
        collecting = caller.collecting(task_id)
        question = await caller.question()
        (key,) = (await other.get(task_id))["inputRequests"]
        await other.ask("tasks/update", taskId=task_id, inputResponses={key: ANN})
        assert await said(collecting) == "Ann"
        await taken_back(caller, question)
        await caller.reply(question, DECLINE)
        assert text_of(await caller.collect(task_id)) == "Ann"


@requirement("G-009")
@pytest.mark.parametrize(
    "transport",
    [
        "memory",
        "json",
        "sse",
    ],
)
async def test_a_question_is_taken_back_when_the_task_is_cancelled(bench: Bench, transport: Transport) -> None:
    async with served(bench.server, transport) as place:
        caller = await place.connect(transport)
        task_id = await caller.hand_in("ask")
        collecting = caller.collecting(task_id)
        question = await caller.question()
        await caller.ask("tasks/cancel", taskId=task_id)
        assert "error" in await collecting.answer()
        await caller.ask("ping")
        (told,) = caller.all_told("notifications/cancelled")
        assert told.params["requestId"] == question.message["id"]


# Who comes back


async def _asked_on(caller: OverHTTP, collecting: Pending) -> Heard:
    return await caller.until(lambda heard: "id" in heard.message and heard.stream == collecting.id)


@requirement("R-25", "E-026")
async def test_who_lost_the_connection_is_asked_again_when_it_waits_again(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.http()
        task_id = await caller.hand_in("ask")
        lost = caller.collecting(task_id)
        await caller.question()
        caller.drop(lost)
        again = caller.collecting(task_id)
        await caller.reply(await _asked_on(caller, again), ANN)
        assert await said(again) == "Ann"


@requirement("R-25", "R-10", "E-026")
async def test_a_known_user_may_answer_in_another_session() -> None:
    async with served(guarded("ask").server) as place:
        before = await place.http(token="ann")
        task_id = await before.hand_in("ask")
        await before.told(task_id, "input_required")
        await before.close()
        after = await place.http(token="ann")
        assert after.session != before.session
        collecting = after.collecting(task_id)
        await after.reply(await after.question(), ANN)
        assert await said(collecting) == "Ann"


@requirement("E-026")
async def test_without_streams_of_their_own_questions_come_on_the_standing_one(bench: Bench) -> None:
    async with served(bench.server, "json") as place:
        caller = await place.http(stands=False)
        task_id = await caller.hand_in("ask")
        unheard = caller.collecting(task_id)
        await caller.ask("ping")
        await caller.stand()
        collecting = caller.collecting(task_id)
        question = await caller.question()
        assert question.stream is None
        await caller.reply(question, ANN)
        assert (await said(collecting), await said(unheard)) == ("Ann", "Ann")


@requirement("R-25")
async def test_work_goes_on_when_its_session_has_ended(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.http()
        await caller.hand_in("wait")
        await asyncio.wait_for(bench.begun.wait(), PATIENCE)
        assert await caller.end() == 200
        bench.go.set()
        await asyncio.wait_for(bench.stopped.wait(), PATIENCE)
    assert bench.runs == ["waited"]


@requirement("R-25")
async def test_work_goes_on_when_all_its_connections_are_gone(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.http()
        collecting = caller.collecting(await caller.hand_in("wait"))
        await caller.ask("ping")
        caller.drop(collecting)
        await caller.close()
        bench.go.set()
        await asyncio.wait_for(bench.stopped.wait(), PATIENCE)
    assert bench.runs == ["waited"]
