"""Thousands of hostile lines to a real server on stdio: it still answers, and ends when its client does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coatcheck import open_engine
from tests.fuzz import older
from tests.fuzz.asgi import PATIENCE
from tests.fuzz.campaign import a_seed
from tests.fuzz.checks import Rows
from tests.fuzz.known import unknown_errors
from tests.fuzz.messages import Fuzzer
from tests.fuzz.older import HELLOS, OlderFuzzer, answer_to, hello, notification
from tests.fuzz.processes import Client, a_process
from tests.fuzz.served import ALICE, POLICY, populate
from tests.fuzz.values import write

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LINES, SYNC_EVERY = 2_500, 40


async def bombard(client: Client, fuzzer: Fuzzer, known: str) -> None:
    assert "result" in await client.ask("first", "server/discover")
    for number in range(LINES):
        body = fuzzer.message().body
        if len(body) < 100_000:
            await client.send(body if fuzzer.chance.random() < 0.05 else body.replace(b"\n", b" "))
        if number % SYNC_EVERY == 0:
            answer = await client.ask(f"sync {number}", "tasks/get", taskId=known)
            assert answer["result"]["taskId"] == known


async def bombard_as_older(client: Client, fuzzer: OlderFuzzer, known: str) -> None:
    """The same in the way of 2025-11-25, which is asked questions, and answers them."""
    greeting = hello("first", *HELLOS[1])["params"]
    assert "result" in await client.ask("first", "initialize", **greeting)
    await client.send(write(notification("notifications/initialized")).encode())
    for number in range(LINES):
        body = fuzzer.message().body
        if len(body) < 100_000:
            await client.send(body.replace(b"\n", b" "))
        for question in client.questions:
            if (answer := answer_to(question, fuzzer.chance)) is not None:
                await client.send(write(answer).encode("utf-8", "surrogateescape").replace(b"\n", b" "))
        client.questions.clear()
        if number % SYNC_EVERY == 0:
            answer = await client.ask(f"sync {number}", "tasks/get", taskId=known)
            assert answer["result"]["taskId"] == known


@pytest.mark.parametrize("is_older", [False, True], ids=["2026-07-28", "2025-11-25"])
async def test_a_server_on_stdio_outlives_hostile_lines(is_older: bool, tmp_path: Path) -> None:
    seed = a_seed()
    async with a_process(tmp_path, "--stdio") as served:
        client = Client(served, older.request) if is_older else Client(served)
        async with open_engine(f"sqlite:///{tmp_path}/tasks.db", policy=POLICY) as engine:
            targets, fixed = await populate(engine, None, ALICE, can_list=is_older)
            rows = Rows(engine, fixed)
            if is_older:
                await bombard_as_older(client, OlderFuzzer(seed, targets), targets.ended[0])
            else:
                await bombard(client, Fuzzer(seed, targets), targets.ended[0])
            assert await rows.changed() == {}
        await client.leave()
        async with asyncio.timeout(PATIENCE):
            assert await served.process.wait() == 0
    assert client.faults == []
    assert unknown_errors(served.said()) == []
