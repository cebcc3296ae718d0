"""Docket's own worker, run for us: it brings ids, keeps Docket's lease while their tasks run, and is let go of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any

from docket import ConcurrencyLimit, Docket, Worker
from docket.dependencies import Dependency, current_execution

from coatcheck.couriers.connection import FUNCTION
from coatcheck.couriers.deliveries import Deliveries
from coatcheck.couriers.trouble import Trouble
from coatcheck.task import Task

_CHECK_INTERVAL = timedelta(milliseconds=10)
"""How long Docket sleeps when its slots are full, whatever becomes free meanwhile; its own choice is 25 times that."""
_RECONNECT = timedelta(seconds=1)
_INSISTENCE_SECONDS = 0.5


class Carrier:
    """Runs Docket's worker until told to stop. What it brings goes to `deliveries`."""

    def __init__(self, docket: Docket, deliveries: Deliveries, *, name: str, slots: int, lease: timedelta) -> None:
        self._docket, self._deliveries = docket, deliveries
        self._name, self._slots, self._lease = name, slots, lease
        self._worker: Worker | None = None
        self._let_go: set[asyncio.Task[None]] = set()
        self._session_ends: asyncio.Future[None]
        self._leaving = asyncio.Event()
        self._trouble = Trouble("Docket's worker cannot run")
        docket.register(self._function(), [FUNCTION])

    async def run(self) -> None:
        """Take deliveries until told to leave, whatever happens to Docket."""
        while not self._leaving.is_set():
            try:
                await self._run()
                self._trouble.end()
            except Exception as error:
                self._trouble.begin(error)
                await asyncio.sleep(_RECONNECT.total_seconds())

    def leave(self) -> None:
        """Take no more."""
        self._leaving.set()

    def fetch(self, task: Task) -> None:
        """Carry a task out that Docket keeps for later, if there is a place for it.

        It may have offered it to workers that do not know it, and may do so again: those that wait in the same rhythm
        are served in the same order. But only Docket counts what may run at once.
        """
        if self._deliveries.has_room(self._slots) and (job := self._deliveries.carry_out(task)):
            self._go_on_without_docket(job)

    async def _run(self) -> None:
        # In one task from beginning to end, as it sets context variables.
        worker = Worker(
            self._docket,
            name=self._name,
            concurrency=self._slots,
            redelivery_timeout=self._lease,
            reconnection_delay=_RECONNECT,
            minimum_check_interval=_CHECK_INTERVAL,
            schedule_automatic_tasks=False,
        )
        async with worker:
            self._worker = worker
            self._resize()
            running = asyncio.create_task(worker.run_forever())
            leaving = asyncio.create_task(self._leaving.wait())
            await asyncio.wait((running, leaving), return_when=asyncio.FIRST_COMPLETED)
            leaving.cancel()
            await _part(running)

    def _function(self) -> Any:
        """Return what Docket calls."""
        carrier = self

        class Admission(Dependency[Task | None]):
            """Looks at the row before Docket's worker goes on, and knows when that worker begins and ends."""

            single = True

            async def __aenter__(self) -> Task | None:
                return await carrier._deliveries.admit(current_execution.get())

            async def __aexit__(
                self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
            ) -> None: ...

            @classmethod
            def worker_lifecycle(cls, docket: Docket, worker: Worker) -> AbstractAsyncContextManager[None]:
                return carrier._serve(docket, worker)

        async def carry_out(task_id: str, admitted: Task | None = Admission()) -> None:  # pyright: ignore[reportArgumentType]
            if admitted and (job := self._deliveries.carry_out(admitted)):
                await self._attend(job)

        return carry_out

    @asynccontextmanager
    async def _serve(self, docket: Docket, worker: Worker) -> AsyncGenerator[None]:
        """Around one session of Docket's worker, which ends with any error of Redis."""
        self._session_ends = ends = asyncio.get_running_loop().create_future()
        async with ConcurrencyLimit.worker_lifecycle(docket, worker):
            try:
                yield
            finally:
                ends.set_result(None)

    async def _attend(self, job: asyncio.Task[None]) -> None:
        """Keep Docket's lease and its places while the job runs.

        That Docket cancels it is a hint: if the row is cancelled, the job ends by itself. But when a session ends,
        Docket waits for all that runs before it begins another, be that hours, and nothing new would start: so the job
        goes on without it.
        """
        me, ends = asyncio.current_task(), self._session_ends
        while not job.done() and (self._leaving.is_set() or not ends.done()):
            try:
                await asyncio.wait((job,) if ends.done() else (job, ends), return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                assert me
                me.uncancel()
        if not job.done():
            self._go_on_without_docket(job)

    def _go_on_without_docket(self, job: asyncio.Task[None]) -> None:
        self._let_go.add(job)
        job.add_done_callback(self._regain)
        self._resize()

    def _regain(self, job: asyncio.Task[None]) -> None:
        self._let_go.discard(job)
        self._resize()

    def _resize(self) -> None:
        """Docket does not count what was let go of, but it needs its slots all the same."""
        if self._worker:
            self._worker.concurrency = self._slots - len(self._let_go)


async def _part(running: asyncio.Task[None]) -> None:
    """Let Docket's worker come to its end: it brings no more, and waits for what it has brought."""
    running.cancel()
    try:
        await asyncio.wait((running,))
    except asyncio.CancelledError:  # it has had its time; perhaps Redis does not answer
        while not running.done():
            running.cancel()
            await asyncio.wait((running,), timeout=_INSISTENCE_SECONDS)
        raise
    if not running.cancelled() and (error := running.exception()):
        raise error
