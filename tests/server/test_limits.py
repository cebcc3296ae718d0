"""How much is too much: unfinished tasks of anonymous callers, and polls, where the operator limits them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from coatcheck import InvalidArgument, KeyRefused, new_key
from coatcheck.server import TaskPolicy, TaskServer
from tests.requirements.marks import requirement
from tests.server.conftest import Connect
from tests.server.wire import Caller, in_memory, over_http

pytestmark = pytest.mark.anyio


def _with_endless(server: TaskServer, policy: TaskPolicy | bool = True) -> TaskServer:
    @server.tool(task=policy)
    async def endless() -> None:
        await asyncio.Event().wait()

    @server.tool(task=True)
    async def quick() -> str:
        return "done"

    return server


@requirement("T-02")
async def test_anonymous_callers_have_a_limited_number_of_unfinished_tasks_together(connect: Connect) -> None:
    server = _with_endless(TaskServer("test", store="memory://", max_unfinished=3))
    async with connect(server) as caller:
        first, *_ = [await caller.hand_in("endless") for _ in range(3)]
        with pytest.raises(MCPError) as refused:
            await caller.call("endless")
        assert (refused.value.code, refused.value.error.data) == (-31429, {"unfinished": 3})
        assert "3 unfinished tasks" in refused.value.message
        await caller.cancel(first)
        await caller.hand_in("endless")


async def test_finished_tasks_do_not_count() -> None:
    server = _with_endless(TaskServer("test", store="memory://", max_unfinished=1))
    async with in_memory(server) as caller:
        for _ in range(3):
            await caller.result("quick")


async def test_a_limit_can_be_lifted() -> None:
    server = _with_endless(TaskServer("test", store="memory://", max_unfinished=None))
    async with in_memory(server) as caller:
        for _ in range(20):
            await caller.hand_in("endless")


async def test_a_call_over_the_limit_still_works_as_a_plain_call() -> None:
    server = _with_endless(TaskServer("test", store="memory://", max_unfinished=1))
    async with over_http(server) as caller:
        await caller.hand_in("endless")
        assert (await caller.again(capabilities={}).call("quick"))["resultType"] == "complete"


# Polls


@requirement("S-024")
async def test_polls_are_not_limited_unless_the_operator_wants_it(server: TaskServer, connect: Connect) -> None:
    async with connect(_with_endless(server)) as caller:
        task_id = await caller.hand_in("endless")
        for _ in range(200):
            await caller.get(task_id)


async def _poll_often(caller: Caller, task_id: str) -> None:
    for _ in range(50):
        await caller.get(task_id)


@requirement("S-024", "T-02")
async def test_polls_far_beyond_the_interval_are_refused_with_advice(connect: Connect) -> None:
    slowly = TaskPolicy("optional", poll_interval=60)
    server = _with_endless(TaskServer("test", store="memory://", poll_limit=2), slowly)
    async with connect(server) as caller:
        task_id = await caller.hand_in("endless")
        with pytest.raises(MCPError) as refused:
            await _poll_often(caller, task_id)
    assert (refused.value.code, refused.value.error.data) == (-31429, {"retryAfterMs": 60_000})
    assert "subscriptions/listen" in refused.value.message


@requirement("S-024")
async def test_polls_of_one_task_do_not_count_for_another() -> None:
    slowly = TaskPolicy("optional", poll_interval=60)
    server = _with_endless(TaskServer("test", store="memory://", poll_limit=1), slowly)
    async with over_http(server) as caller:
        one, other = [await caller.hand_in("endless") for _ in range(2)]
        with pytest.raises(MCPError):
            await _poll_often(caller, one)
        assert (await caller.get(other))["status"] == "working"


async def test_answers_and_cancellations_are_never_too_many() -> None:
    slowly = TaskPolicy("optional", poll_interval=60)
    server = _with_endless(TaskServer("test", store="memory://", poll_limit=1), slowly)
    async with in_memory(server) as caller:
        task_id = await caller.hand_in("endless")
        for _ in range(50):
            await caller.update(task_id, {})
            await caller.cancel(task_id)


# Where tasks are kept, and how many run at once


def _files(folder: Path, pattern: str = "*") -> list[Path]:
    return [path for path in folder.rglob(pattern) if path.is_file()]


async def test_tasks_are_kept_in_a_file_named_after_the_server_unless_said_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    server = _with_endless(TaskServer("my server/1"))
    async with in_memory(server) as caller:
        await caller.result("quick")
        url = server.tasks.url(server.name)
    (file,) = _files(tmp_path, "*.db")
    assert (url, file.name) == (f"sqlite:///{file}", "my-server-1.db")
    assert file.parent.stat().st_mode & 0o077 == 0, "only its user may look inside"


async def test_a_servers_tasks_are_found_again_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with in_memory(_with_endless(TaskServer("mine"))) as caller:
        task_id = await caller.hand_in("quick")
        done = await caller.finished(task_id)
    async with in_memory(_with_endless(TaskServer("mine"))) as caller:
        assert await caller.get(task_id) == done


async def test_a_key_seals_what_callers_said(tmp_path: Path) -> None:
    url, key = f"sqlite:///{tmp_path}/tasks.db", new_key()
    server = TaskServer("test", store=url, key=key)

    @server.tool(task=True)
    async def echo(secret: str) -> str:
        return secret

    async with in_memory(server) as caller:
        assert (await caller.result("echo", secret="xyzzy"))["content"][0]["text"] == "xyzzy"
    assert all(b"xyzzy" not in path.read_bytes() for path in _files(tmp_path))
    with pytest.raises(KeyRefused):
        async with in_memory(TaskServer("test", store=url, key=new_key())):
            pass


async def test_the_environment_has_the_last_word_about_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COATCHECK_STORE", f"sqlite:///{tmp_path}/elsewhere.db")
    async with in_memory(_with_endless(TaskServer("test", store="memory://"))) as caller:
        await caller.result("quick")
    assert "elsewhere.db" in os.listdir(tmp_path)


async def test_the_environment_has_the_last_word_about_concurrency(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COATCHECK_CONCURRENCY", "0")
    server = _with_endless(TaskServer("test", store="memory://"))
    async with in_memory(server) as caller:
        assert server.tasks.running.worker is None
        assert (await caller.call("quick"))["statusMessage"] == "Waiting for a worker"


async def test_a_concurrency_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COATCHECK_CONCURRENCY", "many")
    server = _with_endless(TaskServer("test", store="memory://"))
    with pytest.raises(InvalidArgument, match="COATCHECK_CONCURRENCY"):
        async with in_memory(server):
            pass


async def test_tasks_beyond_the_concurrency_wait_for_their_turn() -> None:
    server = _with_endless(TaskServer("test", store="memory://", concurrency=1))
    async with in_memory(server) as caller:
        running = await caller.hand_in("endless")
        waiting = await caller.hand_in("quick")
        assert (await caller.get(waiting))["statusMessage"] == "Waiting for a worker"
        await caller.cancel(running)
        assert (await caller.finished(waiting))["status"] == "completed"
