"""Workers that are measured are there, run the tasks, and are gone afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest
from benchmarks.claim_herd import Side
from benchmarks.databases import sqlite
from benchmarks.herd import herd
from benchmarks.line import Settings
from benchmarks.load.session import Session
from benchmarks.load.trips import run_task
from benchmarks.serving import serving
from benchmarks.stored import fastmcp
from benchmarks.workers_scale import LOADS, farm

from coatcheck.engine import Engine
from coatcheck.wiring import open_store
from tests.databases.fixtures import the_redis

pytestmark = [pytest.mark.slow, pytest.mark.anyio]
PATIENCE = 60


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(folder=tmp_path, rounds=1, is_quick=True)


async def test_workers_run_what_a_server_without_any_takes(settings: Settings) -> None:
    with sqlite(settings.folder) as database:
        async with (
            asyncio.timeout(PATIENCE),
            farm(settings, database, 2) as found,
            Session(found.server.address) as client,
        ):
            pids = found.server.pids
            assert len(set(pids)) == 3
            for load in LOADS:
                assert (await run_task(client, load.tool, load.arguments)).status == "completed"
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []


async def test_a_herd_claims_each_task_once(settings: Settings) -> None:
    with sqlite(settings.folder) as database:
        url = database.url("herd")
        async with asyncio.timeout(PATIENCE), open_store(url) as store, herd(url, 2, 1) as workers:
            found = await Side(database, Engine(store), workers).claims(5)
    assert len(found.latencies) == 5
    assert found.p50 > 0
    assert found.workers_us > 0
    assert found.tried.claims - found.tried.lost == 5


async def test_the_rival_keeps_its_tasks_in_redis(settings: Settings) -> None:
    address = the_redis().address.removesuffix("/0") + "/1"
    async with serving(fastmcp(settings, address)) as server, Session(server.address) as client:
        assert (await run_task(client, "noop", {}, 0.02)).status == "completed"
