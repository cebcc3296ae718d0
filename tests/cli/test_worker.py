"""`coatcheck worker`: runs what servers that share its store leave to it, wherever it is."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest
from mcp import MCPError

from tests.cli.app import HOLDING
from tests.cli.caller import Caller
from tests.cli.clients import Listener, call, connected, hand_in, listening, value
from tests.cli.sdk_client import collect
from tests.cli.serving import APP, ROOT, Served, Serving, environment
from tests.databases.fixtures import new_url
from tests.forked import call_coatcheck, fork

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

HASTY = "tests.cli.app:hasty"
Start = Callable[..., Awaitable[Served]]


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_url(request.param, tmp_path)


@pytest.fixture
async def work(tmp_path: Path, store: str) -> AsyncGenerator[Start]:
    started: list[Served] = []

    async def start(*arguments: str, target: str = APP) -> Served:
        command = ("worker", target, "--store", store, *arguments)
        started.append(Served(*await fork(call_coatcheck, command, ROOT, environment(tmp_path), stream=2)))
        await started[-1].says("", having="Ready for tasks")
        return started[-1]

    yield start
    for worker in started:
        await worker.clean_up()


async def test_a_server_can_leave_all_tasks_to_workers(serve: Serving, work: Start, store: str) -> None:
    served = await serve("--concurrency", "0", store=store)
    worker = await work("--concurrency", "3")
    assert await call(served.url, "worker") == worker.pid
    assert await call(served.url, "process") == served.pid, "what is no task is not the worker's business"


async def test_a_worker_that_is_told_to_stop_hands_on_what_it_may(serve: Serving, work: Start, store: str) -> None:
    served, listener = await serve("--concurrency", "0", store=store, target=HASTY), Listener()
    first = await work(target=HASTY)
    async with connected(served.url, listener) as client:
        resumable, fragile = await hand_in(client, "resumable"), await hand_in(client, "fragile")
        stream = listening(client, resumable, fragile)
        await listener.hears(2, HOLDING)
        first.signal(signal.SIGTERM)
        assert await first.ended() == 0
        second = await work(target=HASTY)
        assert value(await collect(client.session, resumable)) == [first.pid, second.pid]
        with pytest.raises(MCPError, match="shut down before the tool had finished"):
            await collect(client.session, fragile)
        stream.cancel()
    assert not any("Traceback" in line for line in first.said)


async def test_docket_carries_tasks_from_servers_to_workers(
    serve: Serving, work: Start, store: str, tmp_path: Path
) -> None:
    docket = ("--docket", new_url("redis", tmp_path))
    served, listener = await serve("--concurrency", "0", *docket, store=store), Listener()
    first = await work(*docket)
    assert await call(served.url, "worker") == first.pid
    async with connected(served.url, listener) as client:
        resumable = await hand_in(client, "resumable")
        stream = listening(client, resumable)
        await listener.hears(1, HOLDING)
        first.signal(signal.SIGKILL)
        await first.ended()
        second = await work(*docket)
        assert value(await collect(client.session, resumable)) == [first.pid, second.pid]
        stream.cancel()


async def test_what_a_killed_worker_had_is_resumed_by_another(serve: Serving, work: Start, store: str) -> None:
    served, listener = await serve("--concurrency", "0", store=store), Listener()
    first = await work()
    async with connected(served.url, listener) as client:
        resumable, fragile = await hand_in(client, "resumable"), await hand_in(client, "fragile")
        stream = listening(client, resumable, fragile)
        await listener.hears(2, HOLDING)
        first.signal(signal.SIGKILL)
        await first.ended()
        second = await work()
        assert value(await collect(client.session, resumable)) == [first.pid, second.pid]
        with pytest.raises(MCPError, match="lost"):
            await collect(client.session, fragile)
        stream.cancel()


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_several_processes_of_a_worker_end_together(serve: Serving, work: Start, store: str) -> None:
    served = await serve("--concurrency", "0", store=store)
    worker = await work("--processes", "2")
    assert await call(served.url, "worker") != worker.pid
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 0


def test_a_worker_needs_a_store_that_others_have_as_well(coatcheck: Caller) -> None:
    done = coatcheck("worker", APP, "--store", "memory://")
    assert done.code
    assert done.sentence == "Processes cannot share memory://; name a store, as --store sqlite:///tasks.db."


def test_a_server_without_tasks_has_nothing_for_a_worker(coatcheck: Caller) -> None:
    done = coatcheck("worker", "tests.cli.app:plain")
    assert done.code
    assert "has no tasks to run; make it a TaskServer" in done.sentence


def test_docket_needs_a_redis(coatcheck: Caller, tmp_path: Path) -> None:
    done = coatcheck("worker", APP, "--store", f"sqlite:///{tmp_path}/tasks.db", "--docket", "postgresql://localhost")
    assert done.code
    assert done.sentence == "Docket needs a Redis, and postgresql:// is none; use redis://host:6379/0."


def test_a_password_is_not_shown(coatcheck: Caller) -> None:
    done = coatcheck("worker", APP, "--store", "mysql://app:secret@localhost/tasks")
    assert done.code
    assert "secret" not in done.err
    assert "mysql://app:***@localhost/tasks" in done.sentence
