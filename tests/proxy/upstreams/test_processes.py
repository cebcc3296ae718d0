"""Servers that are processes of ours: supervised, listened to, and gone when they should be."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from mcp.shared.exceptions import MCPError

from coatcheck.dialects.words import STATE_UNKNOWN, UNREACHABLE
from coatcheck.errors import CannotConnect
from coatcheck.proxy.failures import Unreachable
from coatcheck.proxy.upstreams.backoff import Backoff
from coatcheck.proxy.upstreams.link import State
from coatcheck.proxy.upstreams.upstream import Upstream
from tests.proxy.upstreams.conftest import LATER, SOON_FOR_PROCESSES, Children, Ear, Reach, leaving_nothing
from tests.proxy.upstreams.hosts import PATIENCE
from tests.proxy.upstreams.test_link import call, ended

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
CONNECTING, CONNECTED, RECONNECTING = State.CONNECTING, State.CONNECTED, State.RECONNECTING


@pytest.fixture
def upstream(reach: Reach, children: Children) -> Upstream:
    return reach(children.entry())


async def pid_of(upstream: Upstream) -> int:
    return int((await ended(call(upstream, "pid")))["content"][0]["text"])


async def gone(pid: int) -> None:
    """Wait until a process has ended."""
    try:
        await asyncio.to_thread(psutil.Process(pid).wait, PATIENCE)
    except psutil.NoSuchProcess:
        return


async def test_a_process_is_started_when_it_is_needed_and_ends_with_its_session(
    upstream: Upstream, children: Children
) -> None:
    async with leaving_nothing():
        assert children.pids == []
        assert [await pid_of(upstream)] == children.pids
        await upstream.close()
        await gone(children.pids[0])


async def test_a_process_gets_its_environment_and_its_folder(reach: Reach, children: Children, tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    upstream = reach(children.entry(env={"COATCHECK_TOLD": "this"}, cwd=str(folder)))
    result = await ended(call(upstream, "environment"))
    assert result["content"][0]["text"] == f"this {folder}"


async def test_a_process_that_was_killed_is_started_again_by_itself(
    upstream: Upstream, children: Children, ear: Ear
) -> None:
    first = await pid_of(upstream)
    os.kill(first, signal.SIGKILL)
    await ear.until(lambda: ear.states == [CONNECTING, CONNECTED, RECONNECTING, CONNECTED])
    second = await pid_of(upstream)
    assert children.pids == [first, second]


async def test_of_a_call_that_its_process_died_in_nobody_says_that_it_was_carried_out(
    upstream: Upstream, children: Children
) -> None:
    with pytest.raises(MCPError) as lost:
        await ended(call(upstream, "die"))
    assert lost.value.code == STATE_UNKNOWN
    assert lost.value.error.data == {"server": "child", "stateUnknown": True}
    assert await pid_of(upstream) == children.pids[-1]
    assert len(children.pids) == 2


async def test_a_process_that_does_not_stay_is_tried_five_times(
    reach: Reach, children: Children, ear: Ear, backoff: Callable[[Backoff], None]
) -> None:
    async with leaving_nothing():
        backoff(SOON_FOR_PROCESSES)
        children.close()
        upstream = reach(children.entry())
        with pytest.raises(Unreachable, match="It is closed"):
            await upstream.connect()
        await ear.until(lambda: upstream.state is State.ERROR)
        assert ear.states == [CONNECTING, RECONNECTING, State.ERROR]
        assert len(children.pids) == 6
        assert "It is closed" in upstream.describe()["error"]
        await upstream.close()


async def test_a_process_that_was_given_up_is_tried_again_when_it_is_needed(
    reach: Reach, children: Children, ear: Ear, backoff: Callable[[Backoff], None]
) -> None:
    backoff(Backoff(first=0.01, most=0.01, tries=1))
    children.close()
    upstream = reach(children.entry())
    with pytest.raises(Unreachable):
        await upstream.connect()
    await ear.until(lambda: upstream.state is State.ERROR)
    with pytest.raises(MCPError) as refused:
        await ended(call(upstream, "pid"))
    assert refused.value.code == UNREACHABLE
    children.open()
    assert await pid_of(upstream) == children.pids[-1]
    assert upstream.state is CONNECTED
    assert upstream.link.attempt == 0


async def test_what_waits_for_a_process_that_is_given_up_is_told(
    reach: Reach, children: Children, ear: Ear, backoff: Callable[[Backoff], None]
) -> None:
    backoff(SOON_FOR_PROCESSES)
    upstream = reach(children.entry())
    await upstream.connect()
    children.close()
    os.kill(children.pids[0], signal.SIGKILL)
    await ear.until(lambda: upstream.state is RECONNECTING)
    with pytest.raises(CannotConnect, match="It is closed"):
        async with asyncio.timeout(PATIENCE):
            await upstream.link.run(lambda connection: connection.request("tools/list", {}))
    assert upstream.state is State.ERROR or upstream.state is RECONNECTING


async def test_what_a_process_says_is_heard_line_by_line(upstream: Upstream, ear: Ear) -> None:
    with pytest.raises(MCPError):
        await ended(call(upstream, "die"))
    await ear.until(lambda: len(ear.lines) > 1)
    assert ear.lines[:2] == ["begun", "I have had enough"]


async def test_a_process_in_the_middle_of_a_call_ends_with_its_session(
    upstream: Upstream, children: Children, ear: Ear
) -> None:
    async with leaving_nothing():
        stuck = call(upstream, "stuck")
        await ear.until(lambda: "stuck" in ear.lines)
        async with asyncio.timeout(PATIENCE):
            await upstream.close()
        await gone(children.pids[0])
        assert stuck.has_ended


@pytest.mark.parametrize("pause", ["before a try", "in a try"])
async def test_a_process_that_is_being_started_again_is_not_left_behind(
    pause: str, reach: Reach, children: Children, ear: Ear, backoff: Callable[[Backoff], None]
) -> None:
    async with leaving_nothing():
        backoff(LATER if pause == "before a try" else SOON_FOR_PROCESSES)
        upstream = reach(children.entry())
        await upstream.connect()
        os.kill(children.pids[0], signal.SIGKILL)
        await ear.until(lambda: upstream.state is RECONNECTING)
        if pause == "in a try":
            await ear.until(lambda: ear.lines.count("begun") == 2)
        await upstream.close()
        for pid in children.pids:
            await gone(pid)


async def test_a_command_that_is_not_there_is_named(reach: Reach, children: Children) -> None:
    with pytest.raises(Unreachable, match="There is no command 'no-such-command'"):
        await reach(children.entry(command="no-such-command")).connect()


async def test_a_command_may_be_in_the_folder_it_is_started_in(
    reach: Reach, children: Children, tmp_path: Path
) -> None:
    link = tmp_path / "run"
    link.write_text(f'#!/bin/sh\nexec "{children.entry().entry["command"]}" "$@"\n')
    link.chmod(0o700)
    upstream = reach(children.entry(command="./run", cwd=str(tmp_path)))
    assert await pid_of(upstream) == children.pids[0]
