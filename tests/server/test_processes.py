"""One store, several processes: work, questions, news and losses cross from one to the other."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crash.children import Child
from tests.databases.fixtures import new_url
from tests.forked import fork
from tests.requirements.marks import requirement
from tests.server.programs import build, run
from tests.server.wire import OverHTTP, over_http

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

Start = Callable[[], Awaitable[Child]]


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_url(request.param, tmp_path)


@pytest.fixture
async def front(url: str) -> AsyncGenerator[OverHTTP]:
    """A client of a server in this process that leaves all work to others."""
    async with over_http(build(url, concurrency=0)) as caller:
        yield caller


@pytest.fixture
async def start_worker(url: str) -> AsyncGenerator[Start]:
    children: list[Child] = []

    async def start() -> Child:
        children.append(Child(*await fork(run, url, stream=1)))
        await children[-1].says("working")
        return children[-1]

    yield start
    for child in children:
        await child.clean_up()


async def _told(stream: Any, status: str) -> dict[str, Any]:
    while True:
        params = (await stream.message())["params"]
        if params.get("status") == status:
            return params


@requirement("S-018", "R-29")
async def test_work_is_done_by_whoever_has_room(front: OverHTTP, start_worker: Start) -> None:
    created = await front.call("where")
    assert created["statusMessage"] == "Waiting for a worker"
    worker = await start_worker()
    done = await front.finished(created["taskId"])
    assert done["result"]["structuredContent"] == {"result": worker.pid}


@requirement("S-052", "S-056", "R-26", "C-024", "R-20")
async def test_a_listener_hears_of_work_in_another_process_as_it_happens(front: OverHTTP, start_worker: Start) -> None:
    task_id = await front.hand_in("ask")
    async with front.listening(task_id) as stream:
        await stream.start()
        waiting = await _told(stream, "working")
        assert waiting["statusMessage"] == "Waiting for a worker"
        await start_worker()
        asked = await _told(stream, "input_required")
        assert asked["statusMessage"] == "Asking (1 of 2)"
        ((key, question),) = asked["inputRequests"].items()
        assert question["params"]["message"] == "Who?"
        await front.update(task_id, {key: {"action": "accept", "content": {"name": "Ann"}}})
        done = await _told(stream, "completed")
        polled = await front.get(task_id)
    assert done["result"]["content"][0]["text"] == "Ann"
    assert {**done, "_meta": 0, "resultType": 0} == {**polled, "_meta": 0, "resultType": 0}


@requirement("S-047", "R-05")
async def test_a_task_is_cancelled_in_whatever_process_it_runs(front: OverHTTP, start_worker: Start) -> None:
    worker = await start_worker()
    task_id = await front.hand_in("fragile")
    assert await worker.says("hanging") == task_id
    await front.cancel(task_id)
    assert (await front.get(task_id))["status"] == "cancelled"
    done = await front.finished(await front.hand_in("where"))
    assert done["result"]["structuredContent"] == {"result": worker.pid}


@requirement("S-065", "T-02")
async def test_a_task_whose_worker_was_killed_fails_and_says_why(front: OverHTTP, start_worker: Start) -> None:
    worker = await start_worker()
    task_id = await front.hand_in("fragile")
    await worker.says("hanging")
    async with front.listening(task_id) as stream:
        await stream.start()
        await worker.kill()
        await start_worker()
        told = await _told(stream, "failed")
    done = await front.finished(task_id)
    assert done["error"] == told["error"]
    assert done["error"]["code"] == -32603
    assert "lost" in done["error"]["message"]
    assert done["statusMessage"] == done["error"]["message"]


@requirement("R-25")
async def test_a_resumable_task_goes_on_in_another_process(front: OverHTTP, start_worker: Start) -> None:
    first = await start_worker()
    task_id = await front.hand_in("sturdy")
    await first.says("hanging")
    await first.kill()
    second = await start_worker()
    done = await front.finished(task_id)
    assert done["result"]["structuredContent"] == {"result": [first.pid, second.pid]}


@requirement("R-20", "S-037")
async def test_a_question_outlives_the_worker_that_asked_it(front: OverHTTP, start_worker: Start) -> None:
    first = await start_worker()
    task_id = await front.hand_in("ask_patiently")
    (key,) = (await front.asked(task_id))["inputRequests"]
    await first.kill()
    await front.update(task_id, {key: {"action": "accept", "content": {"name": "Ann"}}})
    await start_worker()
    assert (await front.finished(task_id))["result"]["content"][0]["text"] == "Ann"


@requirement("S-041")
async def test_a_late_answer_to_a_task_whose_worker_was_lost_is_no_error(front: OverHTTP, start_worker: Start) -> None:
    first = await start_worker()
    task_id = await front.hand_in("ask")
    (key,) = (await front.asked(task_id))["inputRequests"]
    await first.kill()
    await start_worker()
    assert (await front.finished(task_id))["status"] == "failed"
    assert (await front.update(task_id, {key: {"action": "decline"}}))["resultType"] == "complete"
