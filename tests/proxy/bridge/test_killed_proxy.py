"""The proxy is killed in the middle of a call: the next one goes on where it can, and nothing is carried out twice."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.client_faults.gate import PATIENCE
from tests.proxy.bridge.clients import CODED, Kind, Person, connected
from tests.proxy.bridge.conftest import Mortals, Scene
from tests.proxy.bridge.processes import proxy_entry
from tests.proxy.bridge.programs.tools import BEGAN, ENDED

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

OVER_HTTP: tuple[Kind, ...] = ("none-2026", "2026", "2026-sdk")
"""Before 2026-07-28 what is handed in over HTTP is a session's, which ends with its server."""
OVER_STDIO: tuple[tuple[Kind, str], ...] = (
    *((kind, name) for kind in ("none-2025", "2025") for name in ("plain", "older", "newer")),
    ("none-2026", "older"),
    ("2026", "newer"),
)
"""Each of these starts two processes."""
UPSTREAMS = ("plain", "bound", "older", "newer")
KEPT = ("older", "newer")


class Host:
    """Starts proxies over stdio, all on one store."""

    def __init__(self, folder: Path, entries: dict[str, Any]) -> None:
        self.entry = proxy_entry(folder, entries)
        self._config = str(folder / "mcp.json")

    def kill(self) -> None:
        """Kill the proxy that runs, and wait until it is gone."""
        [process] = [child for child in psutil.Process().children() if self._config in child.cmdline()]
        os.kill(process.pid, signal.SIGKILL)
        psutil.wait_procs([process])


@pytest.fixture
def host(tmp_path: Path, mortals: Mortals) -> Host:
    return Host(tmp_path, mortals.entries)


@pytest.mark.parametrize("kind", OVER_HTTP)
@pytest.mark.parametrize("name", UPSTREAMS)
async def test_a_task_is_found_again_over_http(kind: Kind, name: str, mortals: Mortals, scene: Scene) -> None:
    async with connected(kind, mortals.hasty.url, cancels=False) as caller:
        scene.gate.close(BEGAN)
        task_id = await caller.start(f"{name}__work", scene.arguments)
        await scene.gate.reached(BEGAN)
    await asyncio.to_thread(mortals.hasty.kill)
    await asyncio.to_thread(mortals.hasty.start)
    again: Kind = "2026" if kind == "2026-sdk" else kind  # which follows what it has called itself
    async with connected(again, mortals.hasty.url) as caller:
        await _check(kind, name, scene, caller.collect(task_id))


@pytest.mark.parametrize(("kind", "name"), OVER_STDIO)
async def test_a_task_is_found_again_over_stdio(kind: Kind, name: str, host: Host, scene: Scene) -> None:
    async with connected(kind, host.entry) as caller:
        scene.gate.close(BEGAN)
        task_id = await caller.start(f"{name}__work", scene.arguments)
        await scene.gate.reached(BEGAN)
        host.kill()
    async with connected(kind, host.entry) as caller:
        await _check(kind, name, scene, caller.collect(task_id))


@pytest.mark.parametrize("name", UPSTREAMS)
async def test_a_client_that_waits_meanwhile_gets_the_result(name: str, mortals: Mortals, scene: Scene) -> None:
    async with connected("2026", mortals.hasty.url) as caller:
        scene.gate.close(BEGAN)
        task_id = await caller.start(f"{name}__work", scene.arguments)
        collecting = asyncio.create_task(caller.collect(task_id))
        await scene.gate.reached(BEGAN)
        await asyncio.to_thread(mortals.hasty.kill)
        await asyncio.to_thread(mortals.hasty.start)
        await _check("2026", name, scene, collecting)


@pytest.mark.parametrize("name", KEPT)
async def test_a_proxy_that_is_back_before_its_server_waits_for_it(name: str, mortals: Mortals, scene: Scene) -> None:
    server = mortals.server(name)
    async with connected("2026", mortals.hasty.url) as caller:
        scene.gate.close(BEGAN)
        task_id = await caller.start(f"{name}__work", scene.arguments)
        await scene.gate.reached(BEGAN)
        await asyncio.to_thread(mortals.hasty.kill)
        await asyncio.to_thread(server.kill)
        async with _nobody_home(server.port) as knocked:
            await asyncio.to_thread(mortals.hasty.start)
            await asyncio.wait_for(knocked.wait(), PATIENCE)
        await asyncio.to_thread(server.start)
        scene.gate.open(BEGAN)
        assert (await caller.collect(task_id)).text == "The work is done"
    before, after = scene.traces(BEGAN)
    assert before != after
    assert scene.traces(ENDED) == [after]


async def test_what_may_have_been_done_is_unknown_also_if_the_server_is_not_there(
    mortals: Mortals, scene: Scene
) -> None:
    async with connected("2026", mortals.hasty.url) as caller:
        scene.gate.close(BEGAN)
        task_id = await caller.start("plain__work", scene.arguments)
        await scene.gate.reached(BEGAN)
        await asyncio.to_thread(mortals.hasty.kill)
        await asyncio.to_thread(mortals.plain.kill)
        async with _nobody_home(mortals.plain.port):
            await asyncio.to_thread(mortals.hasty.start)
            said = await caller.collect(task_id)
        assert said.is_unknown, said


@pytest.mark.parametrize("name", UPSTREAMS)
async def test_a_call_that_is_no_task_yet_is_repeated_but_not_carried_out_again(
    name: str, mortals: Mortals, scene: Scene
) -> None:
    """The client repeats it under its key."""
    async with connected("2026", mortals.patient.url) as caller:
        scene.gate.close(BEGAN)
        calling = asyncio.create_task(caller.call(f"{name}__work", scene.arguments))
        await scene.gate.reached(BEGAN)
        await asyncio.to_thread(mortals.patient.kill)
        await asyncio.to_thread(mortals.patient.start)
        await _check("2026", name, scene, calling)


@pytest.mark.parametrize("name", KEPT)
async def test_what_is_asked_over_http_is_answered_to_the_next_proxy(name: str, mortals: Mortals, scene: Scene) -> None:
    ann = Person("Ann")
    ann.thinks = asyncio.Event()
    async with connected("2026", mortals.hasty.url, ann) as caller:
        task_id = await caller.start(f"{name}__interview", {**scene.arguments, "questions": ["First?", "Second?"]})
        collecting = asyncio.create_task(caller.collect(task_id))
        await ann.was_asked.wait()
        await asyncio.to_thread(mortals.hasty.kill)
        await asyncio.to_thread(mortals.hasty.start)
        ann.thinks.set()
        said = await collecting
    assert (said.is_error, said.text.count("Ann")) == (False, 2), said
    assert set(ann.asked) == {"First?", "Second?"}
    assert len(scene.traces(BEGAN)) == len(scene.traces(ENDED)) == 1


@pytest.mark.parametrize("name", KEPT)
async def test_what_is_asked_in_a_round_is_answered_to_the_next_proxy(
    name: str, mortals: Mortals, scene: Scene
) -> None:
    """A client without tasks makes its call again, with the answer and what the first proxy gave it to bring along."""
    ann = Person("Ann")
    ann.thinks = asyncio.Event()
    async with connected("none-2026", mortals.patient.url, ann) as caller:
        arguments = {**scene.arguments, "questions": ["First?", "Second?"]}
        calling = asyncio.create_task(caller.call(f"{name}__interview", arguments))
        await ann.was_asked.wait()
        await asyncio.to_thread(mortals.patient.kill)
        await asyncio.to_thread(mortals.patient.start)
        ann.thinks.set()
        assert (await calling).text == "Ann 1 and Ann 2"
    assert ann.asked == ["First?", "Second?"]
    assert len(scene.traces(BEGAN)) == len(scene.traces(ENDED)) == 1


@pytest.mark.parametrize("name", KEPT)
async def test_what_is_asked_over_stdio_is_asked_again_by_the_next_proxy(name: str, host: Host, scene: Scene) -> None:
    ann, ben = Person("Ann"), Person("Ben")
    ann.thinks = asyncio.Event()
    async with connected("2025", host.entry, ann) as caller:
        task_id = await caller.start(f"{name}__interview", {**scene.arguments, "questions": ["First?", "Second?"]})
        collecting = asyncio.create_task(caller.collect(task_id))
        await ann.was_asked.wait()
        collecting.cancel()
        host.kill()
    async with connected("2025", host.entry, ben) as caller:
        assert (await caller.collect(task_id)).text == "Ben 1 and Ben 2"
    assert (ann.asked, ben.asked) == (["First?"], ["First?", "Second?"])
    assert len(scene.traces(BEGAN)) == len(scene.traces(ENDED)) == 1


async def _check(kind: Kind, name: str, scene: Scene, collecting: Any) -> None:
    """See what comes of a call whose server lived on."""
    scene.gate.open(BEGAN)
    said = await collecting
    assert len(scene.traces(BEGAN)) == 1, said
    if name in KEPT:
        assert said.text == "The work is done", said
        assert len(scene.traces(ENDED)) == 1
    else:
        assert said.is_unknown, said
        assert (said.code is not None) is (kind in CODED)


@asynccontextmanager
async def _nobody_home(port: int) -> AsyncGenerator[asyncio.Event]:
    """Hang up on everyone who calls at a port, and tell when someone has."""
    knocked = asyncio.Event()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()
        knocked.set()

    async with await asyncio.start_server(hang_up, "127.0.0.1", port):
        yield knocked
