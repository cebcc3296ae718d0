"""Processes that were forked from one that had imported everything: they are as different as any others."""

import multiprocessing
import os
import sys
from multiprocessing.synchronize import Barrier

import anyio
import pytest

from coatcheck import open_store
from coatcheck.lifecycle import Claimed, advance
from coatcheck.testing.builders import NOW, a_task
from tests.processes import PATIENCE
from tests.stores.served.helpers import LATER

_TASKS = [str(number) for number in range(100)]


@pytest.mark.slow
@pytest.mark.anyio
async def test_each_task_is_claimed_by_one_of_two_workers_that_were_forked(url: str) -> None:
    async with open_store(url) as store:
        for task_id in _TASKS:
            await store.insert(a_task(task_id))
    forked = await anyio.run_process([sys.executable, "-m", __name__, url])
    assert sorted(forked.stdout.decode().split()) == sorted(_TASKS)


async def _claim_all(url: str, worker: str, barrier: Barrier) -> list[str]:
    """Say of which tasks we are told that they are ours."""
    won = list[str]()
    async with open_store(url) as store:
        for task_id in _TASKS:
            task = advance(a_task(task_id), Claimed(worker, LATER), NOW)
            barrier.wait(PATIENCE)  # so that both ask for it at the same time
            if await store.replace(task):
                won.append(task_id)
    return won


def _work(url: str, worker: str, barrier: Barrier) -> None:
    won = anyio.run(_claim_all, url, worker, barrier)
    os.write(sys.stdout.fileno(), " ".join([*won, ""]).encode())  # in one piece: the other one writes there as well


def _fork(url: str) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    children = [context.Process(target=_work, args=(url, name, barrier)) for name in ("a", "b")]
    for child in children:
        child.start()
    for child in children:
        child.join()


if __name__ == "__main__":
    _fork(sys.argv[1])
