"""Errors that cannot say what they are, and workers whose store is away when they stop: nothing is kept waiting."""

import asyncio
import logging
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from coatcheck import Engine, Policy, Status, SyncContext, TaskContext, ToolFailed, Worker, execution, open_engine, tool
from coatcheck.task import Failure
from tests.engine.conftest import PATIENCE, finished

pytestmark = pytest.mark.anyio


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class MuteStop(Mute, StopIteration):
    pass


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Mute(), "Mute: (a Mute that cannot be read)"),
        (ValueError("a\ud83d"), "ValueError: a?"),
        (ToolFailed("a\ud83d"), "a?"),
        (ToolFailed(Mute()), "(a Mute that cannot be read)"),  # pyright: ignore[reportArgumentType]
    ],
    ids=["mute", "torn", "torn on purpose", "mute on purpose"],
)
async def test_an_error_without_words_that_can_be_written_fails_its_task(
    engine: Engine, error: Exception, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)  # what is logged would have to be written, too

    async def broken(ctx: TaskContext) -> None:
        raise error

    async with Worker(engine, [tool(broken)]) as working:
        task = await finished(engine, await working.submit("broken"))
    assert task.failure == Failure(message=message)


async def test_an_error_without_words_that_no_future_can_carry_fails_its_task(engine: Engine) -> None:
    def broken(ctx: SyncContext) -> None:
        raise MuteStop

    async with Worker(engine, [tool(broken)]) as working:
        assert (await finished(engine, await working.submit("broken"))).status is Status.FAILED


# Stopping while the store is away


@pytest.mark.parametrize("is_done", [True, False])
async def test_a_worker_that_stops_while_its_store_is_away_gives_up_after_a_while_and_says_so(
    is_done: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(execution, "_LAST_SECONDS", 0.1)
    started, go_on = asyncio.Event(), asyncio.Event()

    async def work(ctx: TaskContext) -> str:
        started.set()
        await go_on.wait()
        return "done"

    file = tmp_path / "tasks.db"
    async with open_engine(f"sqlite:///{file}", policy=Policy(unwind=timedelta(seconds=0.1))) as engine:
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            async with Worker(engine, [tool(work)], grace=0.1) as working, asyncio.timeout(PATIENCE):
                await working.submit("work")
                await started.wait()
                other.execute("begin immediate")
                if is_done:
                    go_on.set()
                await working.stop()
    assert "Stopped without writing the outcomes of 1 tasks" in caplog.text
