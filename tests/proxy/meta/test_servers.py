"""Servers come and go: who is told, what becomes of what they were doing, and how they are reached again."""

from __future__ import annotations

from typing import Any

import pytest

from coatcheck.proxy.upstreams.backoff import FOR_HTTP, FOR_PROCESSES, Backoff
from coatcheck.proxy.upstreams.health import DEGRADED_AFTER, INTERVAL_SECONDS, TIMEOUT_SECONDS
from coatcheck.proxy.upstreams.link import State
from tests.processes import free_port
from tests.proxy.meta.talks import Meta, proxying
from tests.proxy.meta.upstreams import Upstream

pytestmark = pytest.mark.anyio


async def _server(meta: Meta, name: str = "one") -> dict[str, Any]:
    servers = (await meta.use("list_servers")).said["servers"]
    (found,) = [server for server in servers if server["name"] == name]
    return found


async def _lose(meta: Meta, server: Upstream) -> None:
    """Stop a server while it is at work, which is when it is missed at once."""
    await meta.task("work", server=server.name, name="missed")
    await server.moments.reached("missed")
    await server.stop()
    await meta.until("server_disconnected")


async def test_p_059_each_session_has_one_connection_of_its_own_to_each_server(one: Upstream, two: Upstream) -> None:
    async with proxying([one, two]) as place:
        sessions = [Meta(await place.http()) for _ in range(2)]
        for server in ("one", "two"):
            seen = [{(await meta.execute("whoami", server=server)).own[0] for _ in range(3)} for meta in sessions]
            assert [len(ids) for ids in seen] == [1, 1]
            assert not seen[0] & seen[1]


async def test_p_060_all_sessions_have_the_same_servers(one: Upstream, two: Upstream) -> None:
    async with proxying([one]) as place:
        first, second = Meta(await place.http()), Meta(await place.http())
        assert (await first.use("add_server", name="two", url=two.url)).said["success"] is True
        for meta in (first, second):
            servers = (await meta.use("list_servers")).said["servers"]
            assert [(each["name"], each["type"], each["target"]) for each in servers] == [
                ("one", "http", one.url),
                ("two", "http", two.url),
            ]


async def test_p_061_p_063_a_connection_is_made_when_it_is_first_needed(meta: Meta) -> None:
    assert (await _server(meta))["state"] == "disconnected"
    assert not meta.told
    await meta.execute("echo", word="now")
    assert (await _server(meta))["state"] == "connected"
    assert [event["type"] for event in meta.told] == ["server_connected"]


async def test_p_062_a_server_that_is_added_is_connected_and_the_others_are_told(one: Upstream, two: Upstream) -> None:
    async with proxying([one]) as place:
        meta, other = Meta(await place.http()), Meta(await place.http())
        await other.use("list_servers")
        added = (await meta.use("add_server", name="two", url=two.url)).said
        assert added["success"] is True
        assert added["server"]["state"] == "connected"
        assert {"tools", "resources", "prompts"} <= set(added["capabilities"])
        assert [event["type"] for event in meta.told] == ["server_added", "server_connected"]
        told = await other.until("server_added")
        assert (told["server"], told["data"]) == ("two", {"type": "http", "target": two.url})
        assert (await _server(other, "two"))["state"] == "disconnected"
        assert (await other.execute("echo", server="two", word="there")).own == ["there"]


async def test_p_062_a_server_that_does_not_answer_is_added_all_the_same(meta: Meta) -> None:
    added = (await meta.use("add_server", name="two", url=f"http://127.0.0.1:{free_port()}/mcp")).said
    assert added["success"] is True
    assert added["warning"]
    assert (await _server(meta, "two"))["state"] == "reconnecting"


async def test_p_062_p_053_an_entry_that_leads_nowhere_is_refused(meta: Meta) -> None:
    for given in (
        {"name": "no name", "url": "http://127.0.0.1:9/mcp"},
        {"name": "nothing"},
        {"name": "both", "url": "http://127.0.0.1:9/mcp", "command": "true"},
        {"name": "odd", "url": "gopher://127.0.0.1"},
    ):
        assert (await meta.use("add_server", **given)).error["code"] == "TOOL_ERR_INVALID_ARGUMENT"
    assert [server["name"] for server in (await meta.use("list_servers")).said["servers"]] == ["one"]


async def test_p_062_callers_of_a_shared_proxy_change_nothing_for_each_other(one: Upstream) -> None:
    async with proxying([one], is_for_one=False) as place:
        meta = Meta(await place.http())
        assert not {"add_server", "remove_server"} & set(await meta.talk.tools())
        refused = await meta.talk.refusal("tools/call", name="remove_server", arguments={"server": "one"})
        assert refused["code"] == -31403
        assert (await meta.execute("echo", word="still there")).own == ["still there"]


async def test_p_064_a_server_that_is_removed_is_gone_for_everyone(one: Upstream, two: Upstream) -> None:
    async with proxying([one, two]) as place:
        sessions = [Meta(await place.http()) for _ in range(2)]
        tasks = [await meta.task("work", name=f"n{number}") for number, meta in enumerate(sessions)]
        for meta in sessions:
            await meta.task("ask", questions=["who?"])
            await meta.question()
        assert (await sessions[0].use("remove_server", server="one")).said["success"] is True
        for meta, task in zip(sessions, tasks, strict=True):
            await meta.until("server_removed", server="one")
            assert (await meta.use("get_elicitations")).said["elicitations"] == []
            failed = await meta.until("task_failed", taskId=task)
            assert failed["data"]["error"]
            assert (await meta.execute("echo", word="x")).error["code"] == "TOOL_ERR_SERVER_NOT_FOUND"
            assert [server["name"] for server in (await meta.use("list_servers")).said["servers"]] == ["two"]


async def test_p_064_a_call_that_is_open_is_answered_when_its_server_is_removed(meta: Meta, one: Upstream) -> None:
    call = meta.begin("execute_tool", server="one", tool="work", args={"name": "x"})
    await one.moments.reached("x")
    await meta.use("remove_server", server="one")
    assert (await meta.answer(call)).error["code"] in ("TOOL_ERR_STATE_UNKNOWN", "TOOL_ERR_SERVER_UNREACHABLE")


async def test_p_066_p_038_a_lost_connection_fails_what_was_on_it_in_each_session(one: Upstream) -> None:
    async with proxying([one]) as place:
        sessions = [Meta(await place.http()) for _ in range(2)]
        tasks = [await meta.task("work", name=f"n{number}") for number, meta in enumerate(sessions)]
        for number, meta in enumerate(sessions):
            await one.moments.reached(f"n{number}")
            await meta.task("ask", questions=["who?"])
            await meta.question()
        await one.stop()
        for meta, task in zip(sessions, tasks, strict=True):
            assert (await meta.until("server_disconnected", server="one"))["data"]["reason"]
            assert (await meta.until("task_failed", taskId=task))["data"]["error"]
            assert (await meta.use("get_elicitations")).said["elicitations"] == []


async def test_p_066_p_080_a_server_that_comes_back_is_found_by_itself(meta: Meta, one: Upstream) -> None:
    await _lose(meta, one)
    await one.start()
    await meta.until("server_reconnected")
    assert (await meta.execute("echo", word="again")).own == ["again"]


async def test_p_066_a_server_that_was_restarted_unnoticed_is_found_on_the_next_use(meta: Meta, one: Upstream) -> None:
    await meta.execute("echo", word="connected")
    await one.stop()
    await one.start()
    assert (await meta.execute("echo", word="again")).own == ["again"]


async def test_p_066_a_server_that_is_gone_unnoticed_is_missed_on_the_next_use(meta: Meta, one: Upstream) -> None:
    await meta.execute("echo", word="connected")
    await one.stop()
    code = (await meta.execute("echo", timeout_ms=2_000, word="x")).error["code"]
    assert code in ("TOOL_ERR_SERVER_UNREACHABLE", "TOOL_ERR_STATE_UNKNOWN")
    await meta.until("server_disconnected")


async def test_p_078_what_was_pending_is_reported_as_unknown_and_never_as_success(meta: Meta, one: Upstream) -> None:
    task = await meta.task("work", name="task")
    call = meta.begin("execute_tool", server="one", tool="work", args={"name": "call"})
    await one.moments.reached("task")
    await one.moments.reached("call")
    await one.stop()
    assert (await meta.answer(call)).error["code"] == "TOOL_ERR_STATE_UNKNOWN"
    await meta.settled(task)
    refused = await meta.use("get_task_result", task_id=task)
    assert refused.error["code"] == "TOOL_ERR_TASK_FAILED"
    assert refused.error["cause"] == "TOOL_ERR_STATE_UNKNOWN"
    one.moments.open("task")
    await one.start()
    await meta.until("server_reconnected")
    assert (await meta.use("get_task", task_id=task)).said["task"]["status"] == "failed"


async def test_p_078_a_question_of_before_is_not_answered_on_a_new_connection(meta: Meta, one: Upstream) -> None:
    await meta.task("ask", questions=["who?"])
    question = await meta.question()
    await one.stop()
    await meta.until("server_disconnected")
    await one.start()
    await meta.until("server_reconnected")
    refused = await meta.use("respond_to_elicitation", request_id=question, action="accept", content={"value": "x"})
    assert refused.error["code"] == "TOOL_ERR_REQUEST_NOT_FOUND"
    assert not one.answers or isinstance(one.answers[0], Exception)


async def test_p_080_the_states_of_a_connection_and_the_pace_of_coming_back() -> None:
    assert {str(state) for state in State} == {"connecting", "connected", "disconnected", "reconnecting", "error"}
    assert Backoff(first=1.0, most=180.0, tries=None, jitter=0.1) == FOR_HTTP
    for attempt, wanted in enumerate((1, 2, 4, 8, 16, 32, 64, 128, 180, 180), 1):
        delays = [FOR_HTTP.delay(attempt) or 0 for _ in range(200)]
        assert min(delays) >= wanted * 0.9
        assert max(delays) <= wanted * 1.1
        assert max(delays) > min(delays)
    assert FOR_HTTP.delay(10**6)


async def test_p_081_health_is_looked_after_and_only_told(meta: Meta) -> None:
    assert (INTERVAL_SECONDS, TIMEOUT_SECONDS, DEGRADED_AFTER) == (120.0, 60.0, 3)
    assert (await _server(meta))["health"] == {"status": "unknown", "consecutive_failures": 0}
    await meta.execute("echo", word="connected")
    assert (await _server(meta))["health"] == {"status": "healthy", "consecutive_failures": 0}


async def test_p_082_servers_are_listed_with_how_they_are_doing(meta: Meta, one: Upstream) -> None:
    await meta.execute("echo", word="connected")
    connected = await _server(meta)
    assert {"name", "type", "target", "state", "protocol_version", "has_tasks", "health"} == set(connected)
    assert (connected["protocol_version"], connected["has_tasks"]) == ("2025-11-25", False)
    await _lose(meta, one)
    lost = await _server(meta)
    assert (lost["state"], lost["attempt"]) == ("reconnecting", 1)
    assert 0 <= lost["next_retry_ms"] <= 1100
    assert lost["error"]


async def test_p_082_the_status_of_a_server_has_its_tasks_and_what_it_asks(one: Upstream, two: Upstream) -> None:
    async with proxying([one, two]) as place:
        meta = Meta(await place.memory())
        await meta.task("work", server="two", name="elsewhere")
        task = await meta.task("ask", questions=["who?"])
        question = await meta.question()
        status = (await meta.use("get_server_status", server="one")).said
        assert status["server"]["name"] == "one"
        assert "tools" in status["capabilities"]
        assert status["working_tasks"] == [{"taskId": task, "toolName": "ask", "status": "working"}]
        assert status["pending_elicitations"] == [{"requestId": question, "server": "one", "message": "who?"}]
        assert status["pending_sampling_requests"] == []


async def test_p_082_a_server_can_be_reconnected_at_once(meta: Meta, one: Upstream) -> None:
    before = (await meta.execute("whoami")).own
    answer = await meta.use("reconnect_server", server="one")
    assert answer.said["success"] is True
    assert answer.said["server"]["state"] == "connected"
    assert (await meta.execute("whoami")).own != before
    await meta.until("server_disconnected")
    await meta.until("server_reconnected")


async def test_p_082_a_lost_server_is_reconnected_without_waiting_for_the_next_try(meta: Meta, one: Upstream) -> None:
    await _lose(meta, one)
    refused = await meta.use("reconnect_server", server="one")
    assert refused.error["code"] == "TOOL_ERR_SERVER_UNREACHABLE"
    await one.start()
    assert (await meta.use("reconnect_server", server="one")).said["server"]["state"] == "connected"
    assert (await meta.execute("echo", word="again")).own == ["again"]


async def test_p_083_a_process_is_tried_five_times_ever_more_patiently() -> None:
    assert Backoff(first=1.0, most=60.0, tries=5, jitter=0.1) == FOR_PROCESSES
    for attempt, wanted in enumerate((1, 2, 4, 8, 16), 1):
        assert wanted * 0.9 <= (FOR_PROCESSES.delay(attempt) or 0) <= wanted * 1.1
    assert FOR_PROCESSES.delay(6) is None
    assert max(Backoff(first=1.0, most=60.0).delay(attempt) or 0 for attempt in range(1, 30)) <= 66


async def test_p_083_headers_reach_a_server_and_are_never_shown(one: Upstream, two: Upstream) -> None:
    async with proxying([one]) as place:
        meta = Meta(await place.memory())
        headers = {"Authorization": "Bearer a-secret"}
        added = await meta.use("add_server", name="two", url=two.url, headers=headers)
        assert (await meta.execute("header", server="two", name="authorization")).own == ["Bearer a-secret"]
        shown = [added, await meta.use("list_servers"), await meta.use("get_server_status", server="two")]
        assert "a-secret" not in str([*(answer.raw for answer in shown), *meta.told])


async def test_p_089_a_call_of_a_server_that_is_being_reconnected_is_refused_at_once(meta: Meta, one: Upstream) -> None:
    await _lose(meta, one)
    error = (await meta.execute("echo", word="x")).error
    assert error["code"] == "TOOL_ERR_SERVER_RECONNECTING"
    assert (error["state"], error["attempt"]) == ("reconnecting", 1)
    assert 0 <= error["nextRetryMs"] <= 1100
    assert (await meta.use("list_tasks")).said == {"tasks": []}
