"""What is said of the time of refusals is said of refusals, and a difference that is there is seen."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from benchmarks.access_timing import AGAIN, UNKNOWN, Samples, ask_all, fill, methods_of, noise
from benchmarks.serving import served_by, serving

from coatcheck.engine import Engine, utc_now
from coatcheck.errors import TaskNotFound
from coatcheck.policy import Policy
from coatcheck.wiring import open_store

pytestmark = pytest.mark.anyio
POLICY = Policy(quota=None)


def long_ago() -> datetime:
    return utc_now() - timedelta(days=1)


def _samples(far: float) -> Samples:
    chance = random.Random(1)
    samples = {kind: [chance.gauss(500, 50) for _ in range(500)] for kind in (UNKNOWN, AGAIN)}
    return {**samples, "foreign": [chance.gauss(500 + far, 50) for _ in range(500)]}


def _apart(samples: Samples) -> float:
    middle = {kind: sorted(taken)[len(taken) // 2] for kind, taken in samples.items()}
    return abs(middle["foreign"] - middle[UNKNOWN])


def test_a_difference_is_beyond_the_noise_and_none_is_within_it() -> None:
    same, other = _samples(0), _samples(30)
    assert _apart(same) < noise(same, 200, random.Random(2))
    assert _apart(other) > noise(other, 200, random.Random(2))


async def test_none_of_the_tasks_may_be_seen_and_all_are_there() -> None:
    async with open_store("memory://") as store:
        engine = Engine(store, POLICY)
        ids = await fill(engine, Engine(store, POLICY, long_ago))
        for kind, some in ids.items():
            for task_id in some:
                with pytest.raises(TaskNotFound):
                    await engine.get(task_id)
                assert (await store.get(task_id) is None) is (kind in (UNKNOWN, AGAIN))


@pytest.mark.slow
async def test_every_request_is_refused_and_nothing_is_swept_meanwhile(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    async with open_store(url) as store:
        ids = await fill(Engine(store, POLICY), Engine(store, POLICY, long_ago))
    async with (
        serving(served_by("open_server", url, tmp_path / "log")) as server,
        methods_of(server.address) as methods,
    ):
        for ask in methods.values():
            taken = await ask_all(ask, ids, 3, random.Random(1))
            assert {kind: len(each) for kind, each in taken.items()} == dict.fromkeys(ids, 3)
    async with open_store(url) as store:
        for task_id in ids["expired"]:
            assert await store.get(task_id) is not None
