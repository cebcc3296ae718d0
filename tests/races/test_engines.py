"""Two engines on one store, as on two machines: whatever they do at once, each task has one history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from coatcheck import Engine, Policy, Status, Task, Terms, decode
from coatcheck.errors import QuotaExceeded, Refused
from coatcheck.lifecycle import Completed, Failed, InputRequested, Recorded, WorkerLost
from coatcheck.payload import encode
from coatcheck.task import Failure, InputRequest
from coatcheck.testing.builders import an_entry
from tests.databases.fixtures import new_url
from tests.races.conftest import Races, on_every_store
from tests.races.served import at_once, run
from tests.races.stores import Lots
from tests.races.wire import PATIENCE

pytestmark = [pytest.mark.anyio, on_every_store]

QUOTA = 5
QUESTION = InputRequest(method="elicitation/create", params=encode({"message": "Who?"}))


@pytest.fixture(params=[30, pytest.param(300, marks=pytest.mark.slow)])
def races(request: pytest.FixtureRequest, lots: Lots) -> Races:
    return partial(run, lots, request.param)


@pytest.fixture
async def engines(
    store: str, lots: Lots, tmp_path: Path, only_what_is_told: None
) -> AsyncGenerator[tuple[Engine, Engine]]:
    policy, url = Policy(quota=QUOTA), new_url(store, tmp_path)
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(lots.open_engine(url, policy=policy))
        if store == "memory":
            yield first, first
        else:
            yield first, await stack.enter_async_context(lots.open_engine(url, policy=policy))


async def test_of_workers_that_claim_a_task_one_holds_it(engines: tuple[Engine, Engine], races: Races) -> None:
    async def race(chance: Random) -> str:
        task = await chance.choice(engines).submit("slow")
        offered = [await engine.waiting(["slow"], limit=10, timeout=PATIENCE) for engine in engines]
        assert offered == [[task], [task]]
        claims = [engine.claim([task], f"worker {number % 4}") for number, engine in enumerate(engines * 2)]
        won = [claimed for (claimed,) in filter(None, await at_once(chance, *claims))]
        assert len(won) == 1
        held = await chance.choice(engines).get(task.id)
        assert held == won[0]
        await _forget(engines, held)
        assert held.lease
        return held.lease.worker

    await races(race)


async def test_of_many_ends_one_is_the_end(engines: tuple[Engine, Engine], races: Races) -> None:
    async def race(chance: Random) -> str:
        here, there = chance.sample(engines, 2)
        task = await here.submit("slow", claimed_by="worker")
        waits = [asyncio.create_task(engine.finished(task, PATIENCE)) for engine in (here, there, there)]
        lost = WorkerLost(3, "its process has ended", "worker")
        ends = await at_once(
            chance,
            here.report(task, Completed(1, encode("done"))),
            there.report(task, Failed(1, Failure(message="no"))),
            there.cancel(task.id),
            here._apply(task, lost),  # pyright: ignore[reportPrivateUsage]
        )
        (end,) = [end for end in ends if isinstance(end, Task)]
        assert all(isinstance(other, Refused) for other in ends if other is not end)
        assert [await here.get(task.id), await there.get(task.id), *await asyncio.gather(*waits)] == [end] * 5
        await _forget(engines, end)
        return f"{end.status}, {end.failure}"

    await races(race)


async def test_of_answers_and_a_cancel_one_is_taken_and_no_question_stays_open(
    engines: tuple[Engine, Engine], races: Races
) -> None:
    async def race(chance: Random) -> str:
        here, there = chance.sample(engines, 2)
        task = await here.submit("slow", claimed_by="worker")
        task = await here.report(task, InputRequested(1, {"who": QUESTION}, timedelta(days=1)))
        heard = asyncio.create_task(here.wait(task, PATIENCE))
        await at_once(
            chance,
            here.answer(task.id, None, {"who": {"name": "Ann"}}),
            there.answer(task.id, None, {"who": {"name": "Bob"}}),
            there.cancel(task.id),
        )
        assert (await heard).input_requests == {}
        end = await here.get(task.id)
        assert (end.status, end.input_requests) == (Status.CANCELLED, {})
        await _forget(engines, end)
        return decode(end.input_responses["who"])["name"] if end.input_responses else "nobody"

    await races(race)


async def test_calls_with_one_key_are_one_task(engines: tuple[Engine, Engine], races: Races) -> None:
    async def race(chance: Random) -> None:
        key = f"{chance.random()}"
        made = await at_once(
            chance,
            *(engine.submit("slow", {"n": 1}, owner="ann", idempotency_key=key) for engine in engines * 2),
        )
        assert len({task.id for task in made}) == 1
        assert [task.id for task in await engines[0].list("ann")] == [made[0].id]
        await _forget(engines, await engines[1].get(made[0].id, "ann"))

    await races(race)


async def test_a_quota_holds_for_all_together(engines: tuple[Engine, Engine], races: Races) -> None:
    async def race(chance: Random) -> None:
        calls = [engine.submit("slow", owner="ann") for engine in engines * QUOTA]
        made = await at_once(chance, *calls)
        kept = [task for task in made if isinstance(task, Task)]
        assert len(kept) == QUOTA
        assert all(isinstance(refused, QuotaExceeded) for refused in made if refused not in kept)
        assert len(await engines[0].list("ann")) == QUOTA
        await _forget(engines, *kept)

    await races(race, share=3)


async def test_what_a_lost_worker_records_is_in_the_journal_or_refused(
    engines: tuple[Engine, Engine], races: Races
) -> None:
    async def race(chance: Random) -> str:
        here, there = chance.sample(engines, 2)
        task = await here.submit("slow", terms=Terms(resumable=True), claimed_by="worker")
        lost = WorkerLost(3, "its process has ended", "worker")
        *records, _ = await at_once(
            chance,
            *(here.report(task, Recorded(1, [an_entry(number)])) for number in range(3)),
            there._apply(task, lost),  # pyright: ignore[reportPrivateUsage]
        )
        kept = [number for number, record in enumerate(records) if isinstance(record, Task)]
        row: Any = await there.get(task.id)
        entries = await there.journal(task.id)
        assert row.is_waiting
        assert row.entries == len(entries) == len(kept)
        assert sorted(decode(entry.value) for entry in entries) == kept
        await _forget(engines, row)
        return f"{len(kept)} of them"

    await races(race)


async def _forget(engines: tuple[Engine, Engine], *tasks: Task) -> None:
    for task in tasks:
        await engines[0].forget(task)
        assert await engines[1].store.get(task.id) is None
