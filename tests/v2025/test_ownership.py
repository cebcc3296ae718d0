"""Whose a task is: its user's, whatever the session; of those without a name, their session's."""

from __future__ import annotations

from typing import Any

import pytest

from coatcheck.server import TaskContext
from tests.requirements.marks import requirement
from tests.v2025.bench import ANN, Bench, guarded
from tests.v2025.wire import NEW, NOT_FOUND, WITH_TASKS, Talk, served, text_of

pytestmark = pytest.mark.anyio

METHODS = ("tasks/get", "tasks/result", "tasks/cancel")


@pytest.fixture
def bench() -> Bench:
    return Bench("wait", "ask", "add")


async def cannot_reach(caller: Talk, task_id: str) -> bool:
    """Whether a task is to this caller as if it were not there."""
    answers = [await caller.refusal(method, taskId=task_id) for method in METHODS]
    unknown = [await caller.refusal(method, taskId="x" * len(task_id)) for method in METHODS]
    return answers == unknown == [NOT_FOUND] * 3


# Sessions


@requirement("F-056", "R-10", "R-27", "E-036", "E-037", "F-061")
@pytest.mark.parametrize("transport", ["sse", "json"])
async def test_the_task_of_another_session_is_as_if_it_were_not_there(bench: Bench, transport: Any) -> None:
    async with served(bench.server, transport) as place:
        caller, other = await place.http(), await place.http()
        assert caller.session != other.session
        task_id = await caller.hand_in("wait")
        assert await cannot_reach(other, task_id)
        assert await other.ask("tasks/list") == {"tasks": []}
        assert (await caller.get(task_id))["status"] == "working"


@requirement("F-056", "R-27")
async def test_a_task_that_has_ended_is_no_more_visible_to_others(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller, other = await place.http(), await place.http()
        task_id = await caller.hand_in("add", a=1)
        await caller.collect(task_id)
        assert await cannot_reach(other, task_id)


@requirement("F-056", "E-036")
async def test_nobody_answers_the_questions_of_another_session(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller, other = await place.http(), await place.http()
        task_id = await caller.hand_in("ask")
        await caller.told(task_id, "input_required")
        assert await cannot_reach(other, task_id)
        assert other.heard == []
        collecting = caller.collecting(task_id)
        await caller.reply(await caller.question(), ANN)
        assert text_of((await collecting.answer())["result"]) == "Ann"


@requirement("F-056", "R-10", "X-01")
async def test_who_has_no_session_cannot_reach_the_task_of_one(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller, newer = await place.http(), await place.http(NEW, WITH_TASKS)
        task_id = await caller.hand_in("wait")
        for method in ("tasks/get", "tasks/cancel"):
            assert await newer.refusal(method, taskId=task_id) == NOT_FOUND


@requirement("R-10", "F-056")
async def test_where_sessions_do_not_count_an_id_is_enough() -> None:
    async with served(Bench("wait", bind_sessions=False).server) as place:
        caller, other = await place.http(), await place.http()
        task_id = await caller.hand_in("wait")
        await caller.close()
        assert (await other.get(task_id))["status"] == "working"
        assert (await other.ask("tasks/cancel", taskId=task_id))["status"] == "cancelled"


@requirement("R-10", "G-015")
async def test_without_sessions_and_users_an_id_is_enough(bench: Bench) -> None:
    async with served(bench.server, stateless_http=True) as place:
        caller, other = await place.http(stands=False), await place.http(stands=False)
        assert caller.session is None
        task_id = await caller.hand_in("add", a=1)
        assert text_of(await other.collect(task_id)) == "2"
        assert (await other.get(task_id))["status"] == "completed"


@requirement("R-10")
async def test_what_is_kept_of_a_session_does_not_open_it(bench: Bench) -> None:
    owners: list[str] = []

    @bench.server.tool(task=True)
    async def whose(task: TaskContext) -> None:
        owners.append(str(task.task.owner))

    async with served(bench.server) as place:
        caller = await place.http()
        await caller.collect(await caller.hand_in("whose"))
        await caller.collect(await caller.hand_in("whose"))
    assert len(set(owners)) == 1
    assert caller.session
    assert caller.session not in owners[0]


# Users


@requirement("R-10", "G-014", "E-036", "R-25")
async def test_a_user_reaches_a_task_from_a_new_session() -> None:
    async with served(guarded("wait").server) as place:
        before = await place.http(token="ann")
        task_id = await before.hand_in("wait")
        await before.end()
        after = await place.http(token="ann")
        assert (await after.get(task_id))["status"] == "working"
        assert (await after.ask("tasks/cancel", taskId=task_id))["status"] == "cancelled"
        assert (await after.refusal("tasks/result", taskId=task_id))["message"].startswith("Task was cancelled")


@requirement("R-10", "G-014", "E-036", "E-037", "E-039", "R-27")
@pytest.mark.parametrize("stranger", ["bob", "ann-elsewhere"])
async def test_the_task_of_another_user_is_as_if_it_were_not_there(stranger: str) -> None:
    async with served(guarded("wait").server) as place:
        caller, other = await place.http(token="ann"), await place.http(token=stranger)
        task_id = await caller.hand_in("wait")
        assert await cannot_reach(other, task_id)
        assert await other.ask("tasks/list") == {"tasks": []}


@requirement("G-014", "R-10")
async def test_users_without_sessions_keep_their_tasks_to_themselves() -> None:
    async with served(guarded("add").server, stateless_http=True) as place:
        caller, other = await place.http(token="ann", stands=False), await place.http(token="bob", stands=False)
        task_id = await caller.hand_in("add", a=1)
        assert text_of(await caller.collect(task_id)) == "2"
        assert await cannot_reach(other, task_id)


@requirement("G-014")
async def test_who_has_no_good_token_gets_nowhere() -> None:
    async with served(guarded("wait").server) as place:
        caller = await place.http(token="ann")
        task_id = await caller.hand_in("wait")
        caller.becomes("nobody")
        for method in (*METHODS, "tasks/list"):
            status, body = await caller.post(method, {"taskId": task_id})
            assert status == 401
            assert task_id.encode() not in body


@requirement("G-014", "F-056")
async def test_another_user_cannot_use_a_session_either() -> None:
    async with served(guarded("wait").server) as place:
        caller = await place.http(token="ann")
        task_id = await caller.hand_in("wait")
        caller.becomes("bob")
        status, body = await caller.post("tasks/get", {"taskId": task_id})
        assert status in (403, 404)
        assert b"working" not in body
