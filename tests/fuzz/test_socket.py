"""Thousands of hostile byte strings to a real server: it goes on as if nothing had been."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from coatcheck import Engine, open_engine
from tests.fuzz.campaign import a_seed
from tests.fuzz.checks import Rows
from tests.fuzz.known import unknown_errors
from tests.fuzz.messages import Fuzzer, message, request
from tests.fuzz.processes import Served, a_process
from tests.fuzz.served import ALICE, POLICY, SECRET, populate
from tests.fuzz.wire import Bytes, Reply, bytes_of, exchange, some_bytes

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

MESSAGES, AT_ONCE = 2_500, 25
MOST_MEGABYTES, MOST_DESCRIPTORS = 80, 10


def faults(given: Bytes, reply: Reply) -> list[str]:
    found: list[str] = []
    if reply.is_late or (given.is_whole and not reply.statuses):
        found.append("no answer")
    if any(status >= 500 for status in reply.statuses):
        found.append("a server error")
    if SECRET.encode() in reply.text or b"Traceback" in reply.text:
        found.append("a leak")
    return [f"{fault}: {given!r:.3000}\n  {reply!r:.1000}" for fault in found]


async def answers_properly(port: int, task_id: str) -> bool:
    whole = Bytes((bytes_of(message(request("tasks/get", 7, taskId=task_id))),), is_whole=True)
    return b'"id":7' in (reply := await exchange(port, whole)).text and reply.statuses == (200,)


async def bombard(served: Served, engine: Engine, seed: int) -> list[str]:
    port = await served.port()
    targets, fixed = await populate(engine, None, ALICE)
    rows, fuzzer = Rows(engine, fixed), Fuzzer(seed, targets)
    found: list[str] = []
    warm, held = served.megabytes(), served.descriptors()
    for number in range(MESSAGES // AT_ONCE):
        given = [some_bytes(fuzzer) for _ in range(AT_ONCE)]
        for sent, reply in zip(given, await asyncio.gather(*(exchange(port, each) for each in given)), strict=True):
            found += faults(sent, reply)
        if number == MESSAGES // AT_ONCE // 4:
            warm, held = served.megabytes(), served.descriptors()
    assert await answers_properly(port, targets.ended[0])
    assert served.megabytes() - warm < MOST_MEGABYTES
    assert served.descriptors() - held < MOST_DESCRIPTORS
    assert await rows.changed() == {}
    return found


async def test_a_server_outlives_hostile_bytes(tmp_path: Path) -> None:
    seed = a_seed()
    async with a_process(tmp_path, "--http", "127.0.0.1:0") as served:
        await served.port()
        async with open_engine(f"sqlite:///{tmp_path}/tasks.db", policy=POLICY) as engine:
            found = await bombard(served, engine, seed)
    assert not found, f"{len(found)} faults\n" + "\n".join(found[:5])
    assert served.process.returncode in (0, -signal.SIGTERM)
    assert unknown_errors(served.said()) == []
