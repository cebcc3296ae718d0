"""A worker in a process of its own, which dies at a moment that is agreed on."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from coatcheck import Engine, Policy, Status, Worker
from coatcheck.executors import HttpJobs, Jobs, Pace
from coatcheck.stores.sqlite.store import SQLiteStore
from coatcheck.task import Entry, Task
from tests.executors.service import PID

NEVER = "never any 0"
PACE = Pace(first=0.01, longest=0.05, wait=5.0, longest_retry=0.05)
POLICY = Policy(lease=timedelta(seconds=2), max_losses=100, note_interval=timedelta(seconds=0.01))


class TrappedStore(SQLiteStore):
    """Kills its own process at the nth write of a kind: before it, during it, or once it is durable."""

    def __init__(self, file: Path, trap: str) -> None:
        super().__init__(file)
        self._when, self._kind, number = trap.split()
        self._left = int(number)

    async def replace(self, task: Task, entries: Sequence[Entry] = ()) -> bool:
        self._left -= self._kind == _kind(task, entries)
        when = self._when if self._left == 0 and self._kind == _kind(task, entries) else None
        if when == "before":
            _die()
        if when == "during":
            threading.Thread(target=_die_soon, daemon=True).start()
        is_written = await super().replace(task, entries)
        if when == "after":
            _die()
        return is_written


def _kind(task: Task, entries: Sequence[Entry]) -> str:
    if entries:
        return "record"
    if task.status.is_terminal:
        return "outcome"
    return "question" if task.status is Status.INPUT_REQUIRED else "other"


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_soon() -> None:
    time.sleep(random.uniform(0, 0.002))  # a commit takes about that long
    _die()


def work(file: str, url: str, tool: str, trap: str) -> None:
    """Be a worker of one tool until killed."""
    asyncio.run(_work(file, url, tool, trap))


async def _work(file: str, url: str, tool: str, trap: str) -> None:
    async with (
        HttpJobs(url, name="farm", headers={PID: str(os.getpid())}) as executor,
        TrappedStore(Path(file), trap) as store,
        Worker(Engine(store, POLICY), [Jobs(executor, pace=PACE).tool(tool)]),
    ):
        print("ready", flush=True)
        await asyncio.Event().wait()
