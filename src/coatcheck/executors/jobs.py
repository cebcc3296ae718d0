"""`Jobs`: what the work of a tool is made of if another engine does it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec import UNSET, UnsetType

from coatcheck.context import TaskContext
from coatcheck.engine import Engine
from coatcheck.executor import Executor
from coatcheck.executors.caretaker import Caretaker
from coatcheck.executors.pace import Pace
from coatcheck.executors.run import JobRun
from coatcheck.policy import Duration, Terms
from coatcheck.tool import Tool

_FAREWELL_SECONDS = 5.0


class Jobs:
    """The jobs of one executor, as tasks see them."""

    def __init__(self, executor: Executor, *, pace: Pace = Pace()) -> None:
        self.executor, self.pace = executor, pace
        self._partings: set[asyncio.Task[None]] = set()

    async def run(self, context: TaskContext, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Have a job done, and return its result. Called again by the next worker, it goes on with the same job.

        A task may have several jobs, one after the other or at once; they are told apart by their order. The job is
        cancelled with its task, and if whoever waits for it here gives up.

        Raises:
            ToolFailed: The job failed, was refused, was cancelled by others, or is gone.
        """
        run = JobRun(self.executor, context, self.pace)
        try:
            return await run.result(name, arguments or {})
        except BaseException as error:
            if run.is_left_behind(error):
                # Not waited for: the run may be stopped for many reasons, and which it was is only written after it.
                parting = asyncio.create_task(run.part(error))
                self._partings.add(parting)
                parting.add_done_callback(self._partings.discard)
            raise

    def tool(
        self,
        name: str,
        *,
        job: str | None = None,
        timeout: Duration | None = None,
        ttl: Duration | UnsetType | None = UNSET,
        poll_interval: Duration | None = None,
    ) -> Tool:
        """Make a tool that is nothing but a job, called `job` or like the tool. It is resumable by nature."""

        async def work(context: TaskContext, arguments: Mapping[str, Any]) -> Any:
            return await self.run(context, job or name, arguments)

        terms = Terms(ttl=ttl, poll_interval=poll_interval, resumable=True)
        return Tool(name=name, work=work, terms=terms, timeout=timeout)

    @asynccontextmanager
    async def looked_after(self, engine: Engine) -> AsyncGenerator[None]:
        """Meanwhile, stop the jobs of tasks that ended while nobody worked on them. For every process that may.

        At the end, jobs that are being stopped have a few seconds to be.
        """
        caretaker = asyncio.create_task(Caretaker(engine, self.executor).run())
        try:
            yield
        finally:
            caretaker.cancel()
            await asyncio.gather(caretaker, return_exceptions=True)
            await self.settle()

    async def settle(self, within: float = _FAREWELL_SECONDS) -> None:
        """Wait for jobs that are being stopped, up to so many seconds; then leave them to those who look after them."""
        if self._partings:
            _, late = await asyncio.wait(self._partings, timeout=within)
            for parting in late:
                parting.cancel()
            await asyncio.gather(*late, return_exceptions=True)
