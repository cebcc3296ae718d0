"""Clients of any generation use the meta tools alike."""

from __future__ import annotations

import pytest

from tests.proxy.meta.talks import Meta
from tests.proxy.meta.upstreams import Upstream
from tests.v2025.wire import NEW, OLD, OLDER, PROGRESS, VERSION, WITH_TASKS, Place

pytestmark = pytest.mark.anyio

VERSIONS = (OLDER, OLD, VERSION, NEW)


@pytest.mark.parametrize("version", VERSIONS)
async def test_p_003_p_019_p_033_a_call_is_promoted_answered_and_collected(place: Place, version: str) -> None:
    meta = Meta(await place.http(version))
    task = await meta.task("ask", questions=["who?"])
    question = await meta.question()
    await meta.use("respond_to_elicitation", request_id=question, action="accept", content={"value": "Ada"})
    assert (await meta.use("get_task_result", task_id=task)).own == ["Ada"]
    await meta.until("task_completed", taskId=task)


@pytest.mark.parametrize("version", [VERSION, NEW])
async def test_a_client_that_can_be_asked_itself_is_asked_by_tools_all_the_same(place: Place, version: str) -> None:
    talk = await place.http(version)
    meta = Meta(talk)
    await meta.task("ask", questions=["who?"])
    await meta.question()
    assert [heard.method for heard in talk.heard if "id" in heard.message] == []


@pytest.mark.parametrize("version", [VERSION, NEW])
async def test_a_client_with_tasks_gets_answers_and_no_tasks_of_its_own(
    place: Place, one: Upstream, version: str
) -> None:
    """What the meta tools make of a call is theirs to tell; a ticket for `execute_tool` itself would hide it."""
    meta = Meta(await place.http(version, WITH_TASKS))
    answer = await meta.execute("work", timeout_ms=1, name="x")
    assert answer.own[1]["proxy_task"]["status"] == "working"


@pytest.mark.parametrize("version", VERSIONS)
async def test_progress_reaches_who_asked_for_it(place: Place, one: Upstream, version: str) -> None:
    talk = await place.http(version)
    params = {"name": "execute_tool", "arguments": {"server": "one", "tool": "report", "args": {"name": "x"}}}
    call = talk.begin("tools/call", {**params, "_meta": {"progressToken": "mine"}})
    told = await talk.until(lambda heard: heard.method == PROGRESS)
    assert {"progressToken": "mine", "progress": 1, "total": 2, "message": "half of it"}.items() <= told.params.items()
    one.moments.open("x")
    assert (await call.answer())["result"]["content"][0]["text"] == "x is done"


async def test_a_modern_client_is_answered_in_its_words(place: Place) -> None:
    meta = Meta(await place.http(NEW))
    for tool in ("list_tasks", "list_servers"):
        assert (await meta.use(tool)).raw["resultType"] == "complete"
    assert (await meta.execute("echo", word="x")).raw["resultType"] == "complete"
    assert (await meta.use("get_task", task_id="none")).raw["resultType"] == "complete"
