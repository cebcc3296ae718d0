"""Looking after jobs whose tasks have ended without them, whoever worked on them: cancelled, or failed."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence

from coatcheck.context import STEP
from coatcheck.engine import Engine
from coatcheck.errors import TaskNotFound
from coatcheck.executor import Executor, JobRefused
from coatcheck.executors.persistence import PASSING
from coatcheck.executors.run import ID, KEY
from coatcheck.payload import decode
from coatcheck.task import Entry, Position, Status, Task

logger = logging.getLogger("coatcheck")

_PAGE = 100
_SHARE = 20
"""How much longer it does nothing than it looks."""


class Caretaker:
    """Needs no leader: to stop a job twice does no harm."""

    def __init__(self, engine: Engine, executor: Executor) -> None:
        self._engine, self._executor = engine, executor
        self._settled: set[str] = set()
        """Ended tasks that have been seen to."""

    async def run(self) -> None:
        """Look again and again, as often as a worker sweeps, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self.look()
            except Exception as error:
                logger.error("Cannot look after the jobs of %s just now: %r", self._executor.name, error)
            pause = self._engine.policy.lease.total_seconds() / 4
            await asyncio.sleep(max(pause, _SHARE * (loop.time() - began)) * random.uniform(0.8, 1.2))

    async def look(self) -> None:
        """Stop the jobs of every task that has ended without a result, if they have not been stopped."""
        after: Position | None = None
        seen: set[str] = set()
        while page := await self._engine.list_all(after=after, limit=_PAGE):
            for task in page:
                if task.status in (Status.CANCELLED, Status.FAILED) and task.entries:
                    seen.add(task.id)
                    if task.id not in self._settled and await self._settle(task):
                        self._settled.add(task.id)
            after = page[-1].position
        self._settled &= seen

    async def _settle(self, task: Task) -> bool:
        try:
            for key, job_id in _jobs(await self._journal(task), self._executor.name).items():
                job_id = job_id or await self._executor.attach(key)
                if job_id:
                    await self._executor.cancel(job_id)
        except TaskNotFound:
            pass
        except JobRefused as error:
            logger.error("A job of %s may run on, though its task has ended: %s", self._executor.name, error)
        except PASSING as error:
            logger.warning("A job of %s is not stopped yet: %s", self._executor.name, error)
            return False
        return True

    async def _journal(self, task: Task) -> Sequence[Entry]:
        entries: list[Entry] = []
        while len(entries) < task.entries:
            more = await self._engine.journal(task.id, task.owner, after=len(entries))
            if not more:
                break
            entries += more
        return entries


def _jobs(entries: Sequence[Entry], executor: str) -> dict[str, str | None]:
    """Return the keys of an executor's jobs, each with the job's id if that was written down too."""
    values = {entry.key: entry.value for entry in entries}
    jobs: dict[str, str | None] = {}
    for name, value in values.items():
        head, _, number = name.rpartition("#")
        if head == f"{STEP}:{KEY}{executor}":
            recorded = values.get(f"{STEP}:{ID}{executor}#{number}")
            jobs[decode(value)] = None if recorded is None else decode(recorded)
    return jobs
