"""Waiting and being asked over HTTP, where each request has a stream of its own that either side may break off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest

from coatcheck.server import TaskServer
from tests.races.conftest import Races
from tests.races.loop import rest, turns
from tests.races.over_http import OverHTTP, over_http
from tests.races.served import at_once, leaving_nothing, say
from tests.races.stage import Stage, build
from tests.races.stores import Lots
from tests.races.wire import OLD, OLDER, Call, Kind, Question
from tests.server.asgi import running

pytestmark = pytest.mark.anyio

SOON = 5.0
"""Seconds in which another one is asked, once whoever was asked has gone."""


class Site:
    """A server over HTTP."""

    def __init__(self, stage: Stage, server: TaskServer, app: Any, stack: AsyncExitStack) -> None:
        self.stage, self.server, self._app, self._stack = stage, server, app, stack

    async def client(self, kind: Kind) -> OverHTTP:
        return await self._stack.enter_async_context(over_http(self._app, kind))


@pytest.fixture
async def site(lots: Lots) -> AsyncGenerator[Site]:
    stage = Stage()
    server = build(stage)
    app = server.streamable_http_app()
    async with running(app), AsyncExitStack() as stack:
        yield Site(stage, server, app, stack)


async def test_all_who_wait_get_the_result_whoever_hangs_up_meanwhile(site: Site, races: Races) -> None:
    older = await site.client(OLDER)

    async def race(chance: Random) -> None:
        label = site.stage.label()
        task_id = await older.hand_in("work", label=label)

        async def wait() -> Call:
            return await older.begin("tasks/result", {"taskId": task_id})

        async def leave() -> None:
            call = await wait()
            await turns(chance)
            older.hang_up(call)

        async with leaving_nothing():
            _, *waiting = await at_once(chance, say(site.stage, label, "go", chance), wait(), wait(), leave(), leave())
            for call in waiting[:2]:
                assert (await call.result())["content"][0]["text"] == f"{label} is done"

    await races(race, share=4)


async def test_of_all_who_wait_one_at_a_time_is_asked_and_all_get_the_result(site: Site, races: Races) -> None:
    older = await site.client(OLDER)

    async def race(chance: Random) -> None:
        label = site.stage.label()
        task_id = await older.hand_in("ask", label=label)
        waiting = await at_once(chance, *(older.begin("tasks/result", {"taskId": task_id}) for _ in range(3)))
        await rest()
        question = _only(older)
        if chance.random() < 0.5:
            gone = older.calls[question.asker]
            waiting.remove(gone)
            await older.give_up(gone)
            await asyncio.sleep(SOON)
            question = _only(older)
        await question.answer("Ann")
        for call in waiting:
            assert (await call.result())["content"][0]["text"] == "Ann"
        await rest()
        assert older.open_questions == []
        assert site.stage.outcomes[label] == ["Ann"]

    await races(race, share=6)


async def test_a_question_is_withdrawn_on_the_stream_it_came_on_before_that_ends(site: Site, races: Races) -> None:
    older = await site.client(OLDER)

    async def race(chance: Random) -> str:
        label = site.stage.label()
        task_id = await older.hand_in("ask", label=label)
        waiting = await older.begin("tasks/result", {"taskId": task_id})
        await rest()
        question = _only(older)
        await at_once(chance, question.answer("Ann"), older.of_task("cancel", task_id))
        answer = await waiting.answer()
        await rest()
        assert question.answered_with or question.is_withdrawn
        assert older.has_ended(waiting)
        return "cancelled" if "error" in answer else "answered"

    await races(race, share=4)


async def test_who_waits_is_answered_when_the_server_stops(lots: Lots, races: Races) -> None:
    async def race(chance: Random) -> None:
        stage = Stage()
        server = build(stage)
        app = server.streamable_http_app()
        async with leaving_nothing(), running(app), over_http(app, OLDER) as older, over_http(app, OLD) as old:
            task_id = await older.hand_in("work", label="a")
            waited, held, _ = await at_once(
                chance,
                (await older.begin("tasks/result", {"taskId": task_id})).answer(),
                old.call("work", label="b"),
                _stop(server, chance),
            )
            assert "again" in waited["error"]["message"]
            assert held["structuredContent"]["task"]["status"] == "working"

    await races(race, share=10)


async def test_a_wait_that_was_given_up_ends(site: Site) -> None:
    older = await site.client(OLDER)
    task_id = await older.hand_in("work", label="a")
    waiting = await older.begin("tasks/result", {"taskId": task_id})
    await rest()
    await older.give_up(waiting)
    await rest()
    assert older.has_ended(waiting)


async def test_a_wait_ends_with_its_session(site: Site) -> None:
    older = await site.client(OLDER)
    task_id = await older.hand_in("work", label="a")
    waiting = await older.begin("tasks/result", {"taskId": task_id})
    await rest()
    await older.end_session()
    await rest()
    assert older.has_ended(waiting)


async def test_an_argument_that_reads_like_a_method_is_an_argument(site: Site) -> None:
    old = await site.client(OLD)
    held = await old.begin_call("ask", label="tasks/result")
    await rest()
    await _only(old).answer("Ann")
    assert (await held.result())["content"][0]["text"] == "Ann"


def _only(client: OverHTTP) -> Question:
    (question,) = client.open_questions
    return question


async def _stop(server: TaskServer, chance: Random) -> None:
    await turns(chance, 80)
    server.tasks.end_streams()
