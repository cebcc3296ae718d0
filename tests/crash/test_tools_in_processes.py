"""Tools in processes of their own: not told what the worker's group is told, and gone with all they have started."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from coatcheck import Engine, Status, Task
from coatcheck.store import EVERYONE, Query, Store
from tests.crash.children import Children
from tests.crash.conftest import Outcome, result
from tests.detached.conftest import gone

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.parametrize("kind_of_store", ["sqlite"])]


class Gate:
    """A pipe in the file system, at which tools wait for a line."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path, self._end = path, os.open(path, os.O_RDWR)

    def open(self) -> None:
        os.write(self._end, b"go on\n")

    def close(self) -> None:
        os.close(self._end)


@pytest.fixture
def gate(tmp_path: Path) -> Generator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.close()


async def the_task(store: Store) -> Task:
    (task,) = await store.list(Query(owner=EVERYONE))
    return task


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("name", "word"), [("hold", "holding"), ("load", "loading")])
async def test_what_the_group_of_a_worker_is_told_does_not_reach_its_tools(
    name: str,
    word: str,
    number: signal.Signals,
    url: str,
    store: Store,
    children: Children,
    gate: Gate,
    outcome: Outcome,
) -> None:
    worker = await children.start("work_in_process", url, name, gate.path)
    await worker.says(word)
    os.killpg(worker.pid, number)
    gate.open()
    done = await outcome(await the_task(store))
    assert (done.status, result(done)) == (Status.COMPLETED, "done")
    assert await worker.ended() == 0


@pytest.mark.parametrize("name", ["employ", "employ-stubborn", "ignore"])
async def test_a_cancelled_tool_ends_with_all_that_it_has_started(
    name: str, url: str, store: Store, engine: Engine, children: Children
) -> None:
    worker = await children.start("work_in_process", url, name)
    started = int(await worker.says("started"))
    await engine.cancel((await the_task(store)).id)
    await gone(started)


async def test_a_tool_that_is_cancelled_before_it_has_begun_never_begins(
    url: str, store: Store, engine: Engine, children: Children, gate: Gate
) -> None:
    worker = await children.start("work_in_process", url, "load", gate.path)
    loading = int(await worker.says("loading"))
    await engine.cancel((await the_task(store)).id)
    await gone(loading)


@pytest.mark.parametrize("name", ["employ", "employ-stubborn"])
async def test_what_a_tool_has_started_does_not_outlive_its_killed_worker(
    name: str, url: str, children: Children
) -> None:
    worker = await children.start("work_in_process", url, name)
    started = int(await worker.says("started"))
    worker.signal(signal.SIGKILL)
    await gone(started)
