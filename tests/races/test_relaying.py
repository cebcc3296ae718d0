"""Many who wait for a task that asks: one at a time is asked, the answer is taken once, and all get the result."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from tests.races.conftest import Races
from tests.races.loop import rest
from tests.races.served import Served, at_once
from tests.races.wire import OLDER, Call, Client, Question, accepted

pytestmark = pytest.mark.anyio

Waiter = tuple[Client, Call]


@pytest.fixture
async def clients(served: Served) -> list[Client]:
    return [await served.client(OLDER) for _ in range(3)]


class Crowd:
    """All who wait for one task."""

    def __init__(self, clients: Sequence[Client], task_id: str) -> None:
        self._clients, self._task_id = clients, task_id
        self._seen = [len(client.questions) for client in clients]
        self.waiting: list[Waiter] = []

    async def come(self, chance: Random) -> None:
        client = chance.choice(self._clients)
        self.waiting.append((client, await client.begin("tasks/result", {"taskId": self._task_id})))

    async def go(self, waiter: Waiter) -> None:
        client, call = waiter
        self.waiting.remove(waiter)
        await client.give_up(call)

    @property
    def questions(self) -> list[Question]:
        return [
            question
            for client, seen in zip(self._clients, self._seen, strict=True)
            for question in client.questions[seen:]
        ]

    @property
    def open_questions(self) -> list[Question]:
        return [question for question in self.questions if question.is_open]

    def asked(self, question: Question) -> Waiter:
        """Return the one on whose stream a question came."""
        return next(
            (client, call) for client, call in self.waiting if client is question.client and call.id == question.asker
        )

    async def results(self) -> list[str]:
        return [(await call.result())["content"][0]["text"] for _, call in self.waiting]


@pytest.mark.parametrize("waiters", [2, 20])
async def test_of_all_who_wait_one_at_a_time_is_asked_and_everyone_gets_the_result(
    waiters: int, served: Served, clients: list[Client], races: Races
) -> None:
    async def race(chance: Random) -> None:
        label = served.stage.label()
        task_id = await chance.choice(clients).hand_in("ask", label=label)
        crowd = Crowd(clients, task_id)
        await at_once(chance, *(crowd.come(chance) for _ in range(waiters)))
        await rest()
        (question,) = crowd.open_questions
        for _ in range(chance.randrange(min(waiters, 4))):
            asked = crowd.asked(question)
            await crowd.go(asked)
            await rest()
            assert question.is_withdrawn
            (question,) = crowd.open_questions
            assert crowd.asked(question) != asked
        await question.answer("Ann")
        assert await crowd.results() == ["Ann"] * len(crowd.waiting)
        await rest()
        assert crowd.open_questions == []
        assert served.stage.outcomes[label] == ["Ann"], "it was taken once"

    await races(race, share=2 if waiters == 2 else 20)


async def test_who_came_last_is_asked_and_then_who_came_before(
    served: Served, clients: list[Client], races: Races
) -> None:
    async def race(chance: Random) -> None:
        label = served.stage.label()
        crowd = Crowd(clients, await clients[0].hand_in("ask", label=label))
        for _ in range(3):
            await crowd.come(chance)
            await rest()
            (question,) = crowd.open_questions
            assert crowd.asked(question) == crowd.waiting[-1]
        while len(crowd.waiting) > 1:
            await crowd.go(crowd.waiting[chance.choice((-1, 0))])
            await rest()
            (question,) = crowd.open_questions
            assert crowd.asked(question) == crowd.waiting[-1]
        await crowd.open_questions[0].answer("Ann")
        assert await crowd.results() == ["Ann"]

    await races(race, share=5)


async def test_whoever_comes_and_goes_while_it_is_answered_one_answer_is_taken(
    served: Served, clients: list[Client], races: Races
) -> None:
    async def race(chance: Random) -> None:
        crowd, label = await _answered_in_a_crowd(served, clients, chance)
        assert len(set(await crowd.results())) == 1
        await rest()
        assert crowd.open_questions == []
        assert served.stage.outcomes[label] in (["Ann"], ["Bob"])

    await races(race, share=2)


async def test_who_is_asked_for_no_time_at_all_is_not_asked(
    served: Served, clients: list[Client], races: Races
) -> None:
    async def race(chance: Random) -> None:
        crowd = Crowd(clients, await clients[0].hand_in("ask", label=served.stage.label()))
        await rest()
        await at_once(chance, *(crowd.come(chance) for _ in range(4)))
        await rest()
        assert len(crowd.open_questions) == 1

    await races(race, share=20)


async def test_who_answered_in_time_is_not_asked_again_whoever_comes_and_goes(
    served: Served, clients: list[Client], races: Races
) -> None:
    async def race(chance: Random) -> None:
        crowd, label = await _answered_in_a_crowd(served, clients, chance)
        await crowd.results()
        in_time = [one for one in crowd.questions if one.answered_with and not one.is_withdrawn]
        assert len(in_time) <= 1
        assert [one.answered_with for one in in_time] == [accepted(*served.stage.outcomes[label])][: len(in_time)]

    await races(race, share=2)


async def _answered_in_a_crowd(served: Served, clients: list[Client], chance: Random) -> tuple[Crowd, str]:
    """Let one answer while another one comes or it goes itself; whoever is asked after that answers, too."""
    label = served.stage.label()
    crowd = Crowd(clients, await clients[0].hand_in("ask", label=label))
    await at_once(chance, *(crowd.come(chance) for _ in range(2)))
    await rest()
    (question,) = crowd.open_questions
    asked = crowd.asked(question)
    comes_or_goes = crowd.come(chance) if chance.random() < 0.5 else crowd.go(asked)
    await at_once(chance, question.answer("Ann"), comes_or_goes)
    await rest()
    for again in crowd.open_questions:
        await again.answer("Bob")
    return crowd, label
