"""A server over HTTP: what it says, where it keeps its tasks, and how it shares them with others."""

from __future__ import annotations

import asyncio
import json
import signal

import psutil
import pytest

import coatcheck
from tests.cli.clients import call, connected, hand_in, value, workers_of
from tests.cli.sdk_client import Task, TasksClient, collect
from tests.cli.serving import PATIENCE, Serving

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


# What it says


async def test_the_banner_says_what_is_served_where_and_on_what_store(serve: Serving) -> None:
    served = await serve("--path", "/there", COATCHECK_STORE="memory://")  # about which the option has the last word
    assert served.url.endswith("/there")
    await served.says("  store ")
    assert served.said[:5] == [
        f"coatcheck {coatcheck.__version__}: cli",
        f"  endpoint  {served.url}",
        "  tools     process, worker, resumable, fragile",
        "  tasks     fragile (required), resumable (required), worker (required)",
        f"  store     {serve.store}",
    ]
    assert await call(served.url, "process") == served.pid


async def test_a_server_without_tasks_is_served_too(serve: Serving) -> None:
    served = await serve(target="tests.cli.app:plain")
    assert await call(served.url, "process") == served.pid
    assert not any(line.startswith(("  tasks", "  store")) for line in served.said)


async def test_the_banner_tells_of_tasks_that_are_an_extension(serve: Serving) -> None:
    served = await serve(target="tests.cli.app:extended")
    served.signal(signal.SIGTERM)
    await served.ended()
    assert "  tasks     endless (required)" in served.said
    assert f"  store     {serve.store}" in served.said


async def test_logs_may_be_lines_of_json(serve: Serving) -> None:
    served = await serve("--log-format", "json", "--log-level", "debug")
    await call(served.url, "worker")
    served.signal(signal.SIGTERM)
    await served.ended()
    records = [json.loads(line) for line in served.said]
    assert all({"at", "level", "logger", "message"} <= record.keys() for record in records)


# Where tasks are kept


async def test_the_store_may_be_named_by_the_environment(serve: Serving) -> None:
    served = await serve(store="", COATCHECK_STORE=f"sqlite:///{serve.folder}/named.db")
    await call(served.url, "worker")
    assert (serve.folder / "named.db").exists()
    assert await served.says("  store ") == f"sqlite:///{serve.folder}/named.db"


async def test_a_store_that_nobody_names_is_named_after_the_server(serve: Serving) -> None:
    served = await serve(store="")
    assert await served.says("  store ") == f"sqlite:///{serve.folder}/state/coatcheck/cli.db"
    assert (serve.folder / "state/coatcheck/cli.db").exists()


# Several processes


async def test_two_workers_serve_from_two_processes_on_one_store_and_end_together(serve: Serving) -> None:
    served = await serve("--workers", "2")
    assert await served.says("  workers ") == "2 processes"
    workers = await workers_of(served)
    done = await asyncio.gather(*(call(served.url, "worker") for _ in range(8)))
    assert set(done) <= {worker.pid for worker in workers}
    served.signal(signal.SIGTERM)
    await served.ended()
    await gone(workers)


async def test_workers_end_when_the_server_above_them_is_killed(serve: Serving) -> None:
    served = await serve("--workers", "2")
    workers = await workers_of(served)
    served.signal(signal.SIGKILL)
    await gone(workers)


async def test_a_server_with_no_concurrency_leaves_tasks_to_others_on_the_store(serve: Serving) -> None:
    front = await serve("--concurrency", "0")
    said: list[str] = []
    is_seen = asyncio.Event()

    def watch(task: Task) -> None:
        said.append(task.status_message)
        is_seen.set()

    async with connected(front.url, TasksClient()) as client:
        ticket = await hand_in(client, "worker")
        collecting = asyncio.create_task(collect(client.session, ticket, watch))
        await is_seen.wait()
        back = await serve()
        assert value(await collecting) == back.pid
    assert said[0] == "Waiting for a worker"


async def gone(processes: list[psutil.Process]) -> None:
    _, alive = await asyncio.to_thread(psutil.wait_procs, processes, PATIENCE)
    assert alive == []
