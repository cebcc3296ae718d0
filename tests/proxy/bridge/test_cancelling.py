"""Whoever cancels what the proxy holds cancels it where it is carried out."""

from __future__ import annotations

import asyncio

import pytest

from tests.client_faults.gate import PATIENCE
from tests.proxy.bridge.clients import KINDS, Kind, connected
from tests.proxy.bridge.conftest import Scene
from tests.proxy.bridge.programs.tools import BEGAN, ENDED, STOPPED

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

UPSTREAMS = ("plain", "talkative", "older", "newer")


@pytest.mark.parametrize(("kind", "upstream"), [(kind, upstream) for kind in KINDS for upstream in UPSTREAMS])
async def test_the_server_stops_what_is_cancelled(kind: Kind, upstream: str, hasty: str, scene: Scene) -> None:
    async with connected(kind, hasty) as caller:
        scene.gate.close(BEGAN)
        task_id = await caller.start(f"{upstream}__work", scene.arguments)
        await scene.gate.reached(BEGAN)
        await caller.cancel(task_id)
        await scene.gate.reached(STOPPED)
    assert (len(scene.traces(STOPPED)), scene.traces(ENDED)) == (1, [])


@pytest.mark.parametrize("upstream", UPSTREAMS)
async def test_a_call_that_is_given_up_before_it_is_a_task_is_stopped(
    upstream: str, patient: str, scene: Scene
) -> None:
    """Nobody else knows of it, so nobody could ask for it later."""
    async with connected("2026-sdk", patient) as caller:
        scene.gate.close(BEGAN)
        calling = asyncio.create_task(caller.call(f"{upstream}__work", scene.arguments))
        await scene.gate.reached(BEGAN)
        calling.cancel()
        await asyncio.wait((calling,), timeout=PATIENCE)
        await scene.gate.reached(STOPPED)
    assert scene.traces(ENDED) == []
