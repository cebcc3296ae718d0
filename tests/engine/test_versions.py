"""Workers of several versions on one store: each runs what it knows, and says what it leaves to others."""

import asyncio
import logging
from collections.abc import Generator

import pytest

from coatcheck import Engine, Task, TaskContext, Worker, decode, tool
from coatcheck.policy import Terms
from coatcheck.tool import Tool
from tests.engine.conftest import PATIENCE, finished

pytestmark = pytest.mark.anyio


def report(version: str, *accepts: str) -> Tool:
    async def work(context: TaskContext) -> str:
        return f"run by {version or 'none'}"

    return tool(work, name="report", version=version, accepts=accepts)


def who_ran(task: Task) -> str:
    assert task.result, task
    return decode(task.result)


class Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.news = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.news.set()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture(autouse=True)
def listening(heard: Heard) -> Generator[None]:
    logging.getLogger("coatcheck").addHandler(heard)
    yield
    logging.getLogger("coatcheck").removeHandler(heard)


async def test_x24_each_version_is_run_by_workers_that_know_it(engine: Engine) -> None:
    async with Worker(engine, [report("1")]) as older, Worker(engine, [report("2")]) as newer:
        made = [await engine.submit("report", terms=Terms(version=version)) for version in ("1", "2", "1", "2")]
        by_hand = [await older.submit("report"), await newer.submit("report")]
        ran = [who_ran(await finished(engine, task)) for task in (*made, *by_hand)]
    assert ran == ["run by 1", "run by 2", "run by 1", "run by 2", "run by 1", "run by 2"]


async def test_x24_what_a_worker_does_not_know_waits_for_one_that_does_and_is_said_once(
    engine: Engine, heard: Heard
) -> None:
    task = await engine.submit("report", terms=Terms(version="2"))
    stranger = await engine.submit("elsewhere")
    async with Worker(engine, [report("1")]) as worker:
        known = await worker.submit("report")
        assert who_ran(await finished(engine, known)) == "run by 1"
        async with asyncio.timeout(PATIENCE):
            while sum("waits for a worker" in line for line in heard.lines) < 2:
                heard.news.clear()
                await heard.news.wait()
        assert (await engine.get(task.id)).is_waiting
        async with Worker(engine, [report("2")]):
            assert who_ran(await finished(engine, task)) == "run by 2"
    said = [line for line in heard.lines if task.id in line]
    assert said[0].endswith("waits for a worker that knows report@2; this one knows report@1, and leaves it to others")
    unknown = [line for line in heard.lines if stranger.id in line]
    assert "knows elsewhere; this one knows no tool of that name" in unknown[0]


async def test_x24_a_newer_version_can_accept_the_tasks_of_older_ones(engine: Engine) -> None:
    made = [await engine.submit("report", terms=Terms(version=version)) for version in ("", "1", "2")]
    async with Worker(engine, [report("2", "1", "")]):
        assert [who_ran(await finished(engine, task)) for task in made] == ["run by 2"] * 3


async def test_x24_a_tool_that_is_replaced_while_running_is_offered_tasks_of_its_new_version(engine: Engine) -> None:
    task = await engine.submit("report", terms=Terms(version="2"))
    async with Worker(engine, [report("1")]) as worker:
        worker.add(report("2"), replace=True)
        assert who_ran(await finished(engine, task)) == "run by 2"
        left = await engine.submit("report", terms=Terms(version="1"))
        worker.remove("report")
        late = await engine.submit("report", terms=Terms(version="2"))
        worker.add(report("1"))
        assert who_ran(await finished(engine, left)) == "run by 1"
    assert (await engine.get(late.id)).is_waiting
