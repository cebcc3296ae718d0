"""Thousands of hostile lines to a real server on stdio: it still answers, and ends when its client does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coatcheck import open_engine
from tests.fuzz.asgi import PATIENCE
from tests.fuzz.campaign import a_seed
from tests.fuzz.checks import Rows
from tests.fuzz.known import unknown_errors
from tests.fuzz.messages import Fuzzer
from tests.fuzz.processes import Client, a_process
from tests.fuzz.served import ALICE, POLICY, populate

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LINES, SYNC_EVERY = 4_000, 40


async def bombard(client: Client, fuzzer: Fuzzer, known: str) -> None:
    assert "result" in await client.ask("first", "server/discover")
    for number in range(LINES):
        body = fuzzer.message().body
        if len(body) < 100_000:
            await client.send(body if fuzzer.chance.random() < 0.05 else body.replace(b"\n", b" "))
        if number % SYNC_EVERY == 0:
            answer = await client.ask(f"sync {number}", "tasks/get", taskId=known)
            assert answer["result"]["taskId"] == known


async def test_a_server_on_stdio_outlives_hostile_lines(tmp_path: Path) -> None:
    seed = a_seed()
    async with a_process(tmp_path, "--stdio") as served:
        client = Client(served)
        async with open_engine(f"sqlite:///{tmp_path}/tasks.db", policy=POLICY) as engine:
            targets, fixed = await populate(engine, None, ALICE)
            rows = Rows(engine, fixed)
            await bombard(client, Fuzzer(seed, targets), targets.ended[0])
            assert await rows.changed() == {}
        await client.leave()
        async with asyncio.timeout(PATIENCE):
            assert await served.process.wait() == 0
    assert client.faults == []
    assert unknown_errors(served.said()) == []
