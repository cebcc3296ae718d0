"""Processes whose whole group is told to stop, as terminals and service managers do: that is said once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from coatcheck.cli.processes import Processes
from tests.cli.app import HOLDING
from tests.cli.clients import Listener, connected, hand_in, listening
from tests.cli.sdk_client import collect
from tests.cli.serving import PATIENCE, ROOT, Served, Serving, environment
from tests.forked import call_coatcheck, fork, run

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

HASTY = "tests.cli.app:hasty"
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture
async def worker(tmp_path: Path, serve: Serving) -> AsyncGenerator[Served]:
    """A worker of two processes."""
    command = ("worker", HASTY, "--store", serve.store, "--processes", "2")
    started = Served(*await fork(call_coatcheck, command, ROOT, environment(tmp_path), stream=2))
    await started.says("", having="Ready for tasks")
    yield started
    await started.clean_up()


@asynccontextmanager
async def holding(url: str) -> AsyncGenerator[tuple[Client, str]]:
    """A client, and a task of it that is being carried out and will not end by itself."""
    listener = Listener()
    async with connected(url, listener) as client:
        task_id = await hand_in(client, "fragile")
        stream = listening(client, task_id)
        await listener.hears(1, HOLDING)
        yield client, task_id
        stream.cancel()


async def says_why_it_failed(client: Client, task_id: str) -> None:
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(MCPError, match="shut down before the tool had finished"):
            await collect(client.session, task_id)


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_worker_of_several_processes_has_its_grace_if_all_are_told(
    number: signal.Signals, serve: Serving, worker: Served
) -> None:
    served = await serve("--concurrency", "0", target=HASTY)
    async with holding(served.url) as (client, task_id):
        os.killpg(worker.pid, number)
        await worker.says("", having="Stopping; 1 running")
        worker.signal(number)  # which it passes on, as it did before, whoever was quicker then
        assert await worker.ended() == 0
        await says_why_it_failed(client, task_id)


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_server_of_several_processes_has_its_grace_if_all_are_told(
    number: signal.Signals, serve: Serving
) -> None:
    first = await serve("--workers", "2", target=HASTY)
    async with holding(first.url) as (_, task_id):
        os.killpg(first.pid, number)
        assert await first.ended() == 0
    second = await serve(target=HASTY)
    async with connected(second.url) as client:
        await says_why_it_failed(client, task_id)


class StopsWhoStartsIt:
    """What a process is given; whoever gives it is told to stop meanwhile."""

    def __reduce__(self) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return StopsWhoStartsIt, ()


def wait_for_the_end(given: StopsWhoStartsIt) -> int:
    signal.pause()
    return 1


def serve_two() -> None:
    sys.exit(Processes(wait_for_the_end, StopsWhoStartsIt()).serve(2))


def test_processes_that_are_told_to_stop_while_they_start_end(tmp_path: Path) -> None:
    assert run(serve_two, folder=tmp_path, within=PATIENCE).returncode == 0
