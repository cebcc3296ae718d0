"""Hostile answers to what a tool asks its caller: whatever is answered, the tool hears of it, and its call ends."""

from __future__ import annotations

import asyncio
import gc
from random import Random

import pytest

from coatcheck.server.http.app import http_app
from tests.fuzz.asgi import PATIENCE, Answer
from tests.fuzz.campaign import Report, a_seed
from tests.fuzz.checks import complaints, heard_errors, told
from tests.fuzz.leftovers import Leftovers
from tests.fuzz.older import HELLOS, Json, answer_to, notification, request
from tests.fuzz.served import a_server, owner_in, running, stop
from tests.fuzz.sessions import Session, open_session

pytestmark = pytest.mark.anyio

FEW, MANY = 8, 80
ASKING = ("ask", "sample", "roots")
MOST_ANSWERS = 6
LONGEST_PAUSE = 0.5
"""Seconds after which whoever is told to poll later is not expected to come back."""


class Witness:
    """Calls tools that ask, in one session, and answers them."""

    def __init__(self, session: Session, chance: Random, report: Report) -> None:
        self._session, self._chance, self._report = session, chance, report
        self._number = 0

    async def testify(self, *, knows_tasks: bool) -> None:
        """Make one call, answer what comes of it, and see that it ends."""
        posted, task_id = await self._call(knows_tasks=knows_tasks)
        conversation = self._session.conversation(posted)
        sent: list[str] = []
        for _ in range(MOST_ANSWERS):
            try:
                question = await self._session.question(posted, LONGEST_PAUSE if is_told_to_wait(sent) else PATIENCE)
            except TimeoutError:
                if not is_told_to_wait(sent):
                    self._report.fault(
                        f"{task_id} hears nothing of {sent}", (conversation.message, conversation.answer)
                    )
                break
            if question is None:
                break
            if not await self._answer(question, sent):
                break
        if not posted.done():
            await self._give_up(posted, task_id)
        self._report.messages += len(sent) + 2
        done = self._session.done(posted)
        for complaint in complaints(done.message, done.answer):
            self._report.fault(f"{complaint}, after {sent}", (done.message, done.answer))

    async def _call(self, *, knows_tasks: bool) -> tuple[asyncio.Task[Answer], str | None]:
        call: Json = {"name": self._chance.choice(ASKING), "arguments": {}}
        if not knows_tasks:
            return self._post(request("tools/call", self._next(), **call)), None
        made = await self._session.ask("tools/call", self._next(), **call, task={})
        task_id = made["result"]["task"]["taskId"]
        return self._post(request("tasks/result", self._next(), taskId=task_id)), task_id

    async def _answer(self, question: Json, sent: list[str]) -> bool:
        """Answer until the transport takes it; False: there will be no answer."""
        while True:
            answer = answer_to(question, self._chance)
            if answer is None:
                return False
            posted = self._post(answer)
            sent.append(f"{question['method']}: {answer!r:.500}")
            if (await posted).status == 202:
                self._session.done(posted)
                return True
            self._session.done(posted)

    async def _give_up(self, posted: asyncio.Task[Answer], task_id: str | None) -> None:
        number = self._number
        if task_id is None:
            cancel = self._post(notification("notifications/cancelled", requestId=number))
            await cancel
            self._session.done(cancel)
        else:
            await self._session.ask("tasks/cancel", self._next(), taskId=task_id)
        async with asyncio.timeout(PATIENCE):
            await posted

    def _post(self, body: Json) -> asyncio.Task[Answer]:
        return self._session.post(self._session.fuzzer.post(body))

    def _next(self) -> int:
        self._number += 1
        return self._number


def is_told_to_wait(sent: list[str]) -> bool:
    return bool(sent) and sent[-1].startswith("tasks/get")


async def interrogate(calls: int, *, has_streams: bool) -> None:
    seed, report, server = a_seed(), Report(), a_server("memory://")
    app = http_app(server, server.tasks) if has_streams else server.streamable_http_app(json_response=True)

    async def witness(number: int) -> None:
        chance = Random(seed + number)
        session = await open_session(app, seed, *HELLOS[number % 2])
        session.stand()
        await session.ask("ping", "first")
        for _ in range(calls):
            # In JSON there is no way to ask in an ordinary call.
            await Witness(session, chance, report).testify(knows_tasks=not has_streams or chance.random() < 0.7)
        await stop(server.tasks.running.engine, owner_in(session.id))
        await session.end()

    with heard_errors() as errors:
        async with running(app):
            leftovers = Leftovers(server)
            await asyncio.gather(*map(witness, range(8)))
            left = await leftovers.after_all()
        gc.collect()
    print(report)
    assert not report.faults, report
    assert [told(error) for error in errors] == []
    assert left == []


@pytest.mark.parametrize("has_streams", [True, False], ids=["streams", "json"])
async def test_a_tool_hears_every_answer(has_streams: bool) -> None:
    await interrogate(FEW, has_streams=has_streams)


@pytest.mark.slow
@pytest.mark.parametrize("has_streams", [True, False], ids=["streams", "json"])
async def test_a_tool_hears_thousands_of_answers(has_streams: bool) -> None:
    await interrogate(MANY, has_streams=has_streams)
