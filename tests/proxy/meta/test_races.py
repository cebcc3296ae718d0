"""Two things at the same moment: one of them wins, everyone is told the same, and nothing is told twice."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest

from tests.proxy.meta.talks import Answer, Meta, proxying
from tests.proxy.meta.upstreams import Upstream

pytestmark = pytest.mark.anyio

RUNS = 30


def _kinds(meta: Meta, task: str) -> list[str]:
    """Return the events of a task."""
    return [event["type"] for event in meta.told if event["data"].get("taskId") == task]


@pytest.mark.parametrize("seed", range(2))
async def test_p_021_p_010_a_task_that_ends_while_it_is_cancelled_is_one_or_the_other(
    meta: Meta, one: Upstream, seed: int
) -> None:
    dice, loop = random.Random(seed), asyncio.get_running_loop()
    await meta.execute("echo", word="connected")

    async def run(number: int) -> None:
        name = f"{seed}-{number}"
        task = await meta.task("work", name=name)
        await one.moments.reached(name)
        loop.call_later(dice.uniform(0, 0.01), one.moments.open, name)
        answer = (await meta.use("cancel_task", task_id=task)).said
        ended = await meta.settled(task)
        assert ended["status"] == ("cancelled" if answer["success"] else "completed")
        result = await meta.use("get_task_result", task_id=task)
        assert result.raw["isError"] is answer["success"]
        await meta.until(f"task_{ended['status']}", taskId=task)
        assert _kinds(meta, task) == ["task_created", f"task_{ended['status']}"]

    for batch in range(0, RUNS, 5):
        await asyncio.gather(*(run(number) for number in range(batch, batch + 5)))


@pytest.mark.parametrize("seed", range(2))
async def test_p_013_a_question_that_is_answered_as_it_expires_is_one_or_the_other(one: Upstream, seed: int) -> None:
    dice, loop = random.Random(seed), asyncio.get_running_loop()
    async with proxying([one], question_timeout=timedelta(seconds=0.1)) as place:
        meta = Meta(await place.memory())
        await meta.execute("echo", word="connected")

        async def run(number: int) -> None:
            word = f"{number}?"
            task = await meta.task("ask", questions=[word])
            question = await meta.question(message=word)
            answered: asyncio.Future[Answer] = loop.create_future()

            async def answer() -> None:
                given = {"request_id": question, "action": "accept", "content": {"value": "in time"}}
                answered.set_result(await meta.use("respond_to_elicitation", **given))

            loop.call_later(0.09 + dice.uniform(-0.01, 0.01), lambda: meta.talk.spawn(answer()))
            has_answered = (await answered).raw["isError"] is False
            result = (await meta.use("get_task_result", task_id=task)).own[0]
            assert (result == "in time") is has_answered, result
            await meta.caught_up()
            expired = [event for event in meta.told if event["type"] == "elicitation_expired"]
            assert (question in {event["data"]["requestId"] for event in expired}) is not has_answered

        for batch in range(0, RUNS, 5):
            await asyncio.gather(*(run(number) for number in range(batch, batch + 5)))


async def test_p_068_many_who_wait_and_many_who_ask_share_every_event_once(meta: Meta, one: Upstream) -> None:
    await meta.execute("echo", word="connected")
    names = [f"n{number}" for number in range(20)]
    tasks = [await meta.task("work", name=name) for name in names]
    waiting = [meta.begin("await_activity", timeout_ms=1_000) for _ in range(5)]
    for name in names:
        one.moments.open(name)
    answers = await asyncio.gather(
        *(meta.answer(each) for each in waiting), *(meta.use("get_task_result", task_id=task) for task in tasks)
    )
    assert len(answers) == 25
    for task in tasks:
        await meta.until("task_completed", taskId=task)
        assert _kinds(meta, task) == ["task_created", "task_completed"]


async def test_p_064_p_062_a_server_may_be_replaced_while_it_is_used(one: Upstream, two: Upstream) -> None:
    async with proxying([one]) as place:
        meta = Meta(await place.memory())
        call = meta.begin("execute_tool", server="one", tool="work", args={"name": "old"})
        await one.moments.reached("old")
        added = await meta.use("add_server", name="one", url=two.url)
        assert added.said["server"]["target"] == two.url
        assert (await meta.answer(call)).raw["isError"] is True
        assert (await meta.execute("echo", word="new")).own == ["new"]
        assert (one.calls, two.calls) == (1, 1)
        await meta.caught_up()
        kinds = [event["type"] for event in sorted(meta.told, key=lambda event: event["id"])]
        assert "server_disconnected" not in kinds[kinds.index("server_added") :]
        assert kinds[0] == kinds[-1] == "server_connected"


async def test_p_036_calls_that_come_before_the_first_connection_share_it(meta: Meta, one: Upstream) -> None:
    answers = await asyncio.gather(*(meta.execute("whoami") for _ in range(10)))
    assert len({answer.own[0] for answer in answers}) == 1
    assert [event["type"] for event in meta.told] == ["server_connected"]
