"""Two users of one application, on one proxy: whatever one has, the other does not know of, on either face."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from coatcheck import Status
from coatcheck.server import Access
from tests.access.issuer import AUDIENCE
from tests.matrix.peers import PATIENCE
from tests.proxy.access.people import GENERATIONS, ISSUER, User, gateway, recording, serving, token, user
from tests.proxy.meta.talks import Meta
from tests.proxy.meta.upstreams import TaskUpstream, Upstream
from tests.requirements.marks import requirement
from tests.v2025.wire import NEW, Place, related, text_of

pytestmark = pytest.mark.anyio

ANN = '["app","https://issuer.example","ann"]'
NOT_FOUND = "TOOL_ERR_TASK_NOT_FOUND"
NO_REQUEST = "TOOL_ERR_REQUEST_NOT_FOUND"
OF_SESSIONS = {"protocol": "2025-11-25"}
"""Of a server whose connections are sessions, and tell of things."""
AUDITED = {"access": Access(audit=True)}


@pytest.fixture
async def place(one: Upstream) -> AsyncGenerator[Place]:
    """A proxy with the servers' own tools."""
    async with serving(gateway([one])) as place:
        yield place


@pytest.fixture
async def hasty(one: Upstream) -> AsyncGenerator[Place]:
    """One that makes a task of every call that takes more than a moment."""
    async with serving(gateway([one], promote_after=0.05)) as place:
        yield place


@pytest.fixture
async def meta_place(one: Upstream) -> AsyncGenerator[Place]:
    """A proxy with the meta tools."""
    async with serving(gateway([one], is_meta=True)) as place:
        yield place


@pytest.fixture
async def pair(meta_place: Place, version: str) -> tuple[Meta, Meta]:
    return Meta(await user(meta_place, "ann", version)), Meta(await user(meta_place, "bob", version))


async def begun(caller: User, name: str) -> str:
    """Have a call become a task, in the caller's generation, and return the task's id."""
    if caller.client.version == NEW:
        return (await caller.use("one__work", name=name))["taskId"]
    return await caller.hand_in("one__work", name=name)


# Being let in


@requirement("F-062")
@pytest.mark.parametrize("is_meta", [False, True], ids=["tools", "meta"])
@pytest.mark.parametrize("wrong", [None, "nonsense", "expired", "issuer", "audience", "signature"])
async def test_without_a_good_token_nobody_gets_to_a_server(
    one: Upstream, version: str, is_meta: bool, wrong: str | None
) -> None:
    shown = {
        None: None,
        "nonsense": "nonsense",
        "expired": token("ann", exp=1),
        "issuer": token("ann", iss="https://else.example"),
        "audience": token("ann", aud="else"),
        "signature": token("ann")[:-8] + "AAAAAAAA",
    }[wrong]
    async with serving(gateway([one], is_meta=is_meta)) as place:
        ann = await user(place, "ann", version)
        ann.shows(shown)
        for tool, arguments in (
            ("one__echo", {"word": "x"}),
            ("execute_tool", {"server": "one", "tool": "echo", "args": {"word": "x"}}),
        ):
            status, _ = await ann.post("tools/call", {"name": tool, "arguments": arguments})
            assert status == 401
    assert one.calls == 0


async def test_a_session_of_someone_else_is_not_there(place: Place, one: Upstream) -> None:
    ann, bob = [await user(place, name, "2025-11-25") for name in ("ann", "bob")]
    assert text_of(await ann.use("one__echo", word="x")) == "x"
    bob.takes_over(ann)
    status, _ = await bob.post("tools/call", {"name": "one__echo", "arguments": {"word": "mine"}})
    assert status == 404
    assert one.calls == 1


# The servers' own tools


@requirement("E-036", "E-039", "F-056")
async def test_a_task_of_one_user_is_nothing_to_the_other(hasty: Place, one: Upstream, version: str) -> None:
    ann, bob = await user(hasty, "ann", version), await user(hasty, "bob", version)
    task_id = await begun(ann, "held")
    for method in ("tasks/get", "tasks/cancel", "tasks/result", "tasks/update"):
        params: dict[str, Any] = {"taskId": task_id, **({"inputResponses": {}} if method == "tasks/update" else {})}
        foreign = await bob.request(method, params)
        unknown = await bob.request(method, {**params, "taskId": "no-such-task"})
        assert foreign["error"] == unknown["error"]
    if version != NEW:
        assert (await bob.ask("tasks/list"))["tasks"] == []
        assert [task["taskId"] for task in (await ann.ask("tasks/list"))["tasks"]] == [task_id]
    assert (await ann.get(task_id))["status"] == "working"
    one.moments.open("held")


async def test_a_ticket_of_one_user_is_nothing_to_the_other(hasty: Place, one: Upstream, version: str) -> None:
    ann, bob = [await user(hasty, name, version, {"elicitation": {"form": {}}}) for name in ("ann", "bob")]
    ticket = await ann.use("one__work", name="held")
    task_id = ticket["structuredContent"]["task"]["taskId"]
    for tool in ("get_task", "wait_task", "answer_task", "cancel_task"):
        foreign = await bob.use(tool, task_id=task_id)
        assert foreign["isError"]
        assert text_of(foreign) == text_of(await bob.use(tool, task_id="no-such-task"))
    assert (await bob.use("list_tasks"))["structuredContent"] == {"tasks": []}
    one.moments.open("held")
    assert text_of(await ann.use("wait_task", task_id=task_id)) == "held is done"


async def test_users_have_connections_of_their_own(one: Upstream, version: str) -> None:
    async with serving(gateway([one], entry=OF_SESSIONS)) as place:
        callers = [await user(place, name, version) for name in ("ann", "bob", "ann")]
        sessions = [text_of(await caller.use("one__whoami")) for caller in callers]
        assert sessions[0] == sessions[2] != sessions[1]


@requirement("E-036")
async def test_a_question_is_put_to_the_user_in_whose_call_it_is_asked(place: Place, one: Upstream) -> None:
    users = {name: await user(place, name, "2025-11-25") for name in ("ann", "bob")}
    tasks = {name: await each.hand_in("one__ask", questions=[f"{name}?"]) for name, each in users.items()}
    for name, each in users.items():
        collecting = each.collecting(tasks[name])
        question = await each.question("elicitation/create")
        assert question.params["message"] == f"{name}?"
        assert question.params["_meta"].items() >= related(tasks[name]).items()
        await each.reply(question, {"action": "accept", "content": {"value": name}})
        assert text_of((await collecting.answer())["result"]) == name


@requirement("E-036")
async def test_a_stream_hears_of_what_its_own_users_connections_tell_and_nothing_else(one: Upstream) -> None:
    uri = "one+memo://greeting"
    wanted = {"notifications": {"resourceSubscriptions": [uri], "toolsListChanged": True}}
    async with serving(gateway([one], entry=OF_SESSIONS)) as place:
        ann, bob = await user(place, "ann", NEW), await user(place, "bob", NEW)
        for each in (ann, bob):
            each.begin("subscriptions/listen", wanted)
            await each.until(lambda heard: heard.method == "notifications/subscriptions/acknowledged")
        for each, other in ((ann, bob), (bob, ann)):
            before = len(other.heard)
            await each.use("one__tell", uri="memo://greeting")
            await each.use("one__tell_of_tools")
            await each.until(lambda heard: heard.method == "notifications/tools/list_changed")
            assert each.all_told("notifications/resources/updated")[-1].params["uri"] == uri
            assert len(other.heard) == before


@pytest.mark.parametrize("is_meta", [False, True], ids=["tools", "meta"])
async def test_a_token_is_neither_passed_on_nor_kept_nor_logged(
    version: str, is_meta: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with (
        recording("one") as one,
        serving(gateway([one], is_meta=is_meta, promote_after=0.05, options=AUDITED)) as place,
    ):
        ann = await user(place, "ann", version)
        if is_meta:
            task_id = await Meta(ann).task("work", name="held")
        else:
            task_id = await begun(ann, "held")
        await ann.ask("tools/list")
        row = await place.engine.get(task_id, ANN)
        one.moments.open("held")
        await place.engine.finished(row, PATIENCE)
    signature = ann.token.rpartition(".")[2]
    assert task_id in caplog.text
    assert signature not in caplog.text
    assert signature not in str(row)
    assert len(one.headers) > 2
    assert not any(name == "authorization" or signature in value for name, value in one.headers)


@requirement("E-036")
async def test_a_stream_does_not_take_the_tasks_of_another_user(hasty: Place, one: Upstream) -> None:
    ann, bob = await user(hasty, "ann", NEW), await user(hasty, "bob", NEW)
    task_id = await begun(ann, "held")
    for each, taken in ((ann, [task_id]), (bob, [])):
        each.begin("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
        heard = await each.until(lambda heard: heard.method == "notifications/subscriptions/acknowledged")
        assert heard.params["notifications"]["taskIds"] == taken
    one.moments.open("held")
    await ann.until(lambda heard: heard.method == "notifications/tasks" and heard.params["status"] == "completed")
    assert bob.all_told("notifications/tasks") == []


@requirement("E-036")
async def test_an_adopted_task_is_its_makers_only_though_its_server_sees_but_one_caller(
    version: str, tmp_path: Path
) -> None:
    server = TaskUpstream("one", tmp_path, version)
    await server.start()
    try:
        async with serving(gateway([server], entry={"protocol": version}, promote_after=0.05)) as place:
            ann, bob = await user(place, "ann", version), await user(place, "bob", version)
            task_id = await begun(ann, "held")
            await server.moments.reached("held")
            assert (await bob.request("tasks/get", {"taskId": task_id}))["error"]["code"] == -32602
            assert (await bob.request("tasks/cancel", {"taskId": task_id}))["error"]["code"] == -32602
            server.moments.open("held")
            task = await place.engine.finished(await place.engine.get(task_id, ANN), PATIENCE)
            assert task.status is Status.COMPLETED
    finally:
        await server.stop()


async def test_a_client_is_told_where_to_get_a_token(place: Place) -> None:
    path = "/.well-known/oauth-protected-resource/mcp"
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(place.app), base_url="http://127.0.0.1:8000") as http:
        said = (await http.get(path)).json()
    assert (said["resource"], said["authorization_servers"]) == (AUDIENCE, [ISSUER])


# The meta tools


@requirement("E-036")
async def test_no_meta_tool_gives_a_user_anything_of_another_ones_task(pair: tuple[Meta, Meta], one: Upstream) -> None:
    ann, bob = pair
    task_id = await ann.task("ask", questions=["who?"])
    question = await ann.question()
    for tool in ("get_task", "get_task_result", "cancel_task"):
        foreign, unknown = await bob.use(tool, task_id=task_id), await bob.use(tool, task_id="0" * len(task_id))
        assert foreign.error["code"] == unknown.error["code"] == NOT_FOUND
        assert foreign.error["message"].replace(task_id, "") == unknown.error["message"].replace("0" * len(task_id), "")
    for tool, more in (
        ("respond_to_elicitation", {"action": "accept", "content": {"value": "bob"}}),
        ("cancel_elicitation_request", {}),
        ("respond_to_sampling", {"content": "bob"}),
        ("cancel_sampling_request", {}),
    ):
        assert (await bob.use(tool, request_id=question, **more)).error["code"] == NO_REQUEST
    assert (await bob.use("list_tasks", include_completed=True)).said == {"tasks": []}
    assert (await bob.use("get_elicitations")).said == {"elicitations": []}
    assert (await bob.use("get_server_status", server="one")).said["working_tasks"] == []
    await ann.use("respond_to_elicitation", request_id=question, action="accept", content={"value": "ann"})
    assert (await ann.use("get_task_result", task_id=task_id)).own == ["ann"]
    assert not any(event["type"].startswith(("task", "elicitation")) for event in bob.told)


@requirement("E-036")
async def test_a_user_cannot_answer_what_a_server_wants_another_ones_model_to_write(
    pair: tuple[Meta, Meta], one: Upstream
) -> None:
    ann, bob = pair
    task_id = await ann.task("sample")
    request_id = await ann.question("sampling_request")
    assert (await bob.use("get_sampling_requests")).said == {"sampling_requests": []}
    for tool, more in (("respond_to_sampling", {"content": "bob"}), ("cancel_sampling_request", {})):
        assert (await bob.use(tool, request_id=request_id, **more)).error["code"] == NO_REQUEST
    await ann.use("respond_to_sampling", request_id=request_id, content="ann", model="m")
    assert (await ann.use("get_task_result", task_id=task_id)).own == ["m said: ann"]


@requirement("E-036")
async def test_timers_logs_notifications_and_events_are_a_users_own(pair: tuple[Meta, Meta], one: Upstream) -> None:
    ann, bob = pair
    timer = (await ann.use("set_timer", duration_ms=60_000, message="ann's")).said["timer"]["timer_id"]
    for tool in ("get_timer", "delete_timer"):
        assert (await bob.use(tool, timer_id=timer)).error["code"] == "TOOL_ERR_TIMER_NOT_FOUND"
    await ann.execute("log", level="info", words=["of ann"])
    await ann.execute("tell", uri="memo://greeting")
    await ann.settled(await ann.task("echo", word="x"))
    for tool, word in (("get_logs", "logs"), ("get_notifications", "notifications"), ("list_timers", "timers")):
        assert (await ann.use(tool)).said[word]
        assert (await bob.use(tool)).said[word] == []
    first = ann.told[0]["id"]
    assert (await bob.use("await_activity", timeout_ms=100, last_event_id=first)).said["events"] == []
    assert {event["type"] for event in bob.told} <= {"server_connected"}
    assert (await ann.use("get_timer", timer_id=timer)).said["timer"]["message"] == "ann's"


async def test_who_waits_for_activity_is_not_woken_by_that_of_someone_else(
    pair: tuple[Meta, Meta], one: Upstream
) -> None:
    ann, bob = pair
    await bob.execute("echo", word="x")
    await bob.caught_up()
    waiting = bob.begin("await_activity", timeout_ms=1_000)
    await ann.settled(await ann.task("echo", word="x"))
    assert (await bob.answer(waiting)).said["triggers"] == [{"type": "timeout"}]


async def test_a_user_finds_its_tasks_again_from_another_program_and_generation(
    meta_place: Place, one: Upstream, version: str
) -> None:
    other = next(each for each in GENERATIONS if each != version)
    task_id = await Meta(await user(meta_place, "ann", version)).task("work", name="held")
    again = Meta(await user(meta_place, "ann", other, also={"jti": "another"}))
    assert [task["task_id"] for task in (await again.use("list_tasks")).said["tasks"]] == [task_id]
    one.moments.open("held")
    assert (await again.use("get_task_result", task_id=task_id)).own == ["held is done"]


@pytest.mark.parametrize("changed", [{"client_id": "other"}, {"sub": "ANN"}], ids=str)
async def test_another_client_or_subject_is_another_caller(
    meta_place: Place, one: Upstream, version: str, changed: dict[str, str]
) -> None:
    task_id = await Meta(await user(meta_place, "ann", version)).task("work", name="held")
    other = Meta(await user(meta_place, "ann", version, also=changed))
    assert (await other.use("get_task", task_id=task_id)).error["code"] == NOT_FOUND
    one.moments.open("held")
