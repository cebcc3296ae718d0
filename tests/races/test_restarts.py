"""A server that is killed and started again: its clients come back on new sessions and find what is theirs."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from mcp.shared.exceptions import MCPError

from tests.cli.serving import Served, Serving
from tests.races.remote import Remote, remote
from tests.races.wire import DUMB, OLD, OLDER, RELATED, Json

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

INVALID_PARAMS, INTERNAL_ERROR, METHOD_NOT_FOUND = -32602, -32603, -32601


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncGenerator[Serving]:
    serving = Serving(tmp_path)
    yield serving
    await serving.clean_up()


async def _started(serve: Serving, name: str) -> Served:
    return await serve(target=f"tests.races.programs:{name}")


async def _restarted(serve: Serving, name: str, killed: Served) -> Served:
    """Kill a server, and start another one on the same file at the same address."""
    killed.signal(signal.SIGKILL)
    assert await killed.ended() == -signal.SIGKILL
    again = await serve("--http", f"127.0.0.1:{urlsplit(killed.url).port}", target=f"tests.races.programs:{name}")
    assert again.url == killed.url
    return again


async def _refusal(client: Remote, verb: str, task_id: str) -> int:
    with pytest.raises(MCPError) as refused:
        await client.of_task(verb, task_id)
    return refused.value.code


async def _listed(client: Remote) -> list[tuple[str, str]]:
    return [(task["taskId"], task["status"]) for task in (await client.request("tasks/list", {}))["tasks"]]


async def test_an_owner_collects_in_a_new_session_what_was_resumed_after_a_kill(serve: Serving) -> None:
    first = await _started(serve, "guarded")
    async with remote(first.url, OLDER, "ann") as ann:
        task_id = await ann.hand_in("sturdy")
        assert await first.says("holding") == task_id
    second = await _restarted(serve, "guarded", first)
    async with remote(second.url, OLDER, "ann") as ann, remote(second.url, OLDER, "bob") as bob:
        result = await ann.of_task("result", task_id)
        assert result["structuredContent"] == {"result": [first.pid, second.pid]}
        assert result["_meta"][RELATED] == {"taskId": task_id}
        assert (await ann.of_task("get", task_id))["status"] == "completed"
        assert await _listed(ann) == [(task_id, "completed")]
        for verb in ("get", "result", "cancel"):
            assert await _refusal(bob, verb, task_id) == INVALID_PARAMS
        assert await _listed(bob) == []


async def test_a_task_that_cannot_be_resumed_has_honestly_failed(serve: Serving) -> None:
    first = await _started(serve, "guarded")
    async with remote(first.url, OLDER, "ann") as ann:
        task_id = await ann.hand_in("fragile")
        await first.says("holding")
    second = await _restarted(serve, "guarded", first)
    async with remote(second.url, OLDER, "ann") as ann:
        with pytest.raises(MCPError, match="not resumable") as failed:
            await ann.of_task("result", task_id)
        assert failed.value.code == INTERNAL_ERROR
        seen = await ann.of_task("get", task_id)
        assert (seen["status"], seen["statusMessage"]) == ("failed", failed.value.message)
        assert await _listed(ann) == [(task_id, "failed")]


async def test_a_ticket_is_good_after_a_kill_and_for_its_owner_only(serve: Serving) -> None:
    first = await _started(serve, "guarded")
    async with remote(first.url, DUMB, "ann") as ann:
        ticket = _ticket(await ann.call("slow"))
        assert (ticket["status"], ticket["tool"]) == ("working", "slow")
    second = await _restarted(serve, "guarded", first)
    async with remote(second.url, DUMB, "ann") as ann, remote(second.url, DUMB, "bob") as bob:
        result = await ann.call("wait_task", task_id=ticket["taskId"])
        assert result["structuredContent"] == {"result": [first.pid, second.pid]}
        foreign = await bob.call("wait_task", task_id=ticket["taskId"])
        unknown = await bob.call("wait_task", task_id="no such task")
        assert foreign == unknown
        assert foreign["isError"]
        (listed,) = (await ann.call("list_tasks"))["structuredContent"]["tasks"]
        assert (listed["taskId"], listed["status"]) == (ticket["taskId"], "completed")
        assert (await bob.call("list_tasks"))["structuredContent"]["tasks"] == []


async def test_an_open_question_is_asked_again_in_a_new_session_and_the_task_goes_on(serve: Serving) -> None:
    first = await _started(serve, "guarded")
    async with remote(first.url, OLDER, "ann") as ann:
        task_id = await ann.hand_in("ask")
        await ann.begin("tasks/result", {"taskId": task_id})
        asked = await ann.question()
    second = await _restarted(serve, "guarded", first)
    async with remote(second.url, OLDER, "ann") as ann:
        waiting = await ann.begin("tasks/result", {"taskId": task_id})
        again = await ann.question()
        assert (again.method, again.params) == (asked.method, asked.params)
        await again.answer("Ann")
        result = await waiting.result()
    assert result["content"][0]["text"] == f"Ann, asked by {first.pid}, told {second.pid}"


async def test_the_question_of_a_held_call_can_be_answered_after_a_kill(serve: Serving) -> None:
    first = await _started(serve, "guarded")
    async with remote(first.url, OLD, "ann") as ann:
        await ann.begin_call("ask")
        await ann.question()
    second = await _restarted(serve, "guarded", first)
    async with remote(second.url, OLD, "ann") as ann:
        (listed,) = (await ann.call("list_tasks"))["structuredContent"]["tasks"]
        assert (listed["tool"], listed["status"]) == ("ask", "input_required")
        await ann.call("answer_task", task_id=listed["taskId"], content={"name": "Ann"})
        result = await ann.call("wait_task", task_id=listed["taskId"])
    assert result["content"][0]["text"] == f"Ann, asked by {first.pid}, told {second.pid}"


async def test_without_sessions_an_id_is_enough_after_a_kill(serve: Serving) -> None:
    first = await _started(serve, "unbound")
    async with remote(first.url, OLDER) as client, remote(first.url, DUMB) as dumb:
        task_id = await client.hand_in("sturdy")
        assert await first.says("holding") == task_id
        ticket = _ticket(await dumb.call("slow"))
    second = await _restarted(serve, "unbound", first)
    async with remote(second.url, OLDER) as client, remote(second.url, DUMB) as dumb:
        expected = {"result": [first.pid, second.pid]}
        assert (await client.of_task("result", task_id))["structuredContent"] == expected
        assert (await dumb.call("wait_task", task_id=ticket["taskId"]))["structuredContent"] == expected
        with pytest.raises(MCPError) as refused:
            await client.request("tasks/list", {})
        assert refused.value.code == METHOD_NOT_FOUND, "it would show what is anybody's"


async def test_where_sessions_count_a_new_one_has_no_part_in_the_tasks_of_an_old_one(serve: Serving) -> None:
    first = await _started(serve, "anonymous")
    async with remote(first.url, OLDER) as client:
        task_id = await client.hand_in("sturdy")
        await first.says("holding")
    second = await _restarted(serve, "anonymous", first)
    async with remote(second.url, OLDER) as other:
        for verb in ("get", "result", "cancel"):
            assert await _refusal(other, verb, task_id) == INVALID_PARAMS
        assert await _listed(other) == []


def _ticket(answer: Json) -> Json:
    return answer["structuredContent"]["task"]
