"""A server is killed in the middle of a call: what it keeps is taken up again, and of the rest nothing is claimed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.serving import ROOT
from tests.interop_servers.clients import together
from tests.proxy.bridge.clients import CODED, KINDS, Caller, Kind, Person, connected
from tests.proxy.bridge.conftest import Mortals, Scene
from tests.proxy.bridge.processes import Server, proxy
from tests.proxy.bridge.programs.tools import BEGAN, ENDED, STOPPED

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

every_kind = pytest.mark.parametrize("kind", KINDS)
durable = pytest.mark.parametrize("name", ["older", "newer"])


async def _killed_at_work(caller: Caller, name: str, server: Server, scene: Scene) -> str:
    """Kill a server in the middle of a task, and start it again. Return the task's id."""
    scene.gate.close(BEGAN)
    task_id = await caller.start(f"{name}__work", scene.arguments)
    await scene.gate.reached(BEGAN)
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    return task_id


@every_kind
@durable
async def test_a_task_that_the_server_keeps_is_followed_when_it_is_back(
    kind: Kind, name: str, mortals: Mortals, scene: Scene
) -> None:
    server = mortals.server(name)
    async with connected(kind, mortals.hasty.url) as caller:
        task_id = await _killed_at_work(caller, name, server, scene)
        await scene.gate.reached(BEGAN, times=2)
        scene.gate.open(BEGAN)
        assert (await caller.collect(task_id)).text == "The work is done"
    before, after = scene.traces(BEGAN)
    assert before != after
    assert scene.traces(ENDED) == [after]


@durable
async def test_what_is_cancelled_while_the_server_is_away_is_stopped_when_it_is_back(
    name: str, mortals: Mortals, scene: Scene
) -> None:
    server = mortals.server(name)
    async with connected("2026", mortals.hasty.url) as caller:
        scene.gate.close(BEGAN)
        task_id = await caller.start(f"{name}__work", scene.arguments)
        await scene.gate.reached(BEGAN)
        await asyncio.to_thread(server.kill)
        await caller.cancel(task_id)
        await asyncio.to_thread(server.start)
        await scene.gate.reached(BEGAN, times=2)
        await scene.gate.reached(STOPPED)
    assert scene.traces(ENDED) == []


@pytest.mark.parametrize("kind", ["2025", "2026"])
@durable
async def test_a_question_is_answered_when_the_server_is_back(
    kind: Kind, name: str, mortals: Mortals, scene: Scene
) -> None:
    server, ann = mortals.server(name), Person("Ann")
    ann.thinks = asyncio.Event()
    async with connected(kind, mortals.hasty.url, ann) as caller:
        task_id = await caller.start(f"{name}__interview", {**scene.arguments, "questions": ["First?", "Second?"]})
        collecting = asyncio.create_task(caller.collect(task_id))
        await ann.was_asked.wait()
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        ann.thinks.set()
        said = await collecting
    assert (said.is_error, said.text.count("Ann")) == (False, 2), said
    assert sorted(set(ann.asked)) == ["First?", "Second?"]


@every_kind
@pytest.mark.parametrize("name", ["plain", "bound"])
async def test_of_what_the_server_does_not_keep_nothing_is_claimed(
    kind: Kind, name: str, mortals: Mortals, scene: Scene
) -> None:
    server = mortals.server(name)
    async with connected(kind, mortals.hasty.url) as caller:
        task_id = await _killed_at_work(caller, name, server, scene)
        said = await caller.collect(task_id)
        assert said.is_unknown, said
        assert (said.code is not None) is (kind in CODED)
        # It is there again for what is new.
        assert (await caller.call(f"{name}__echo", {"word": "Hello"})).text == "Hello"


@every_kind
async def test_a_call_that_is_held_ends_when_the_server_does(kind: Kind, mortals: Mortals, scene: Scene) -> None:
    """Nobody has been given a task or a ticket yet, but for whoever asked for one."""
    async with connected(kind, mortals.patient.url) as caller:
        scene.gate.close(BEGAN)
        calling = asyncio.create_task(caller.call("plain__work", scene.arguments))
        await scene.gate.reached(BEGAN)
        await asyncio.to_thread(mortals.plain.kill)
        said = await calling
        assert said.is_unknown, said
        assert said.code is not None
    assert len(scene.traces(BEGAN)) == 1


async def test_a_server_that_is_a_process_of_the_proxy_is_killed(tmp_path: Path, scene: Scene) -> None:
    program = ["-m", "tests.proxy.bridge.programs.upstreams"]
    entry = {"command": sys.executable, "args": program, "cwd": str(ROOT)}
    with proxy(tmp_path, {"process": entry}) as gateway:
        async with connected("none-2026", gateway.url) as held, connected("2026", gateway.url) as caller:
            scene.gate.close(BEGAN)
            tasks = await together(*(each.start("process__work", scene.arguments) for each in (held, caller)))
            await scene.gate.reached(BEGAN, times=2)
            for pid in set(scene.traces(BEGAN)):
                os.kill(pid, signal.SIGKILL)
            said = await together(held.collect(tasks[0]), caller.collect(tasks[1]))
            assert [each.is_unknown for each in said] == [True, True], said
            assert (await caller.call("process__echo", {"word": "Hello"})).text == "Hello"
    assert len(scene.traces(BEGAN)) == 2
