"""An open request that waits for a task: its client is asked what the task asks, and told how far it is."""

from __future__ import annotations

import asyncio
import math

from coatcheck.server.access.desk import Desk
from coatcheck.server.failures import Stopping
from coatcheck.server.hook import RequestContext
from coatcheck.server.waiting.crowd import Crowds
from coatcheck.server.waiting.errands import Errands
from coatcheck.server.waiting.heartbeat import Heartbeat
from coatcheck.server.waiting.live import Lines
from coatcheck.server.waiting.peer import Peer
from coatcheck.server.waiting.relay import Relays
from coatcheck.task import Task

_LONG_POLL_SECONDS = 3600.0


class Vigils:
    """All requests of this process that wait for tasks."""

    def __init__(self, desk: Desk, heartbeat: float) -> None:
        self._engine, self._heartbeat = desk.engine, heartbeat
        self.lines = Lines(heartbeat)
        self.errands = Errands()
        self.relays = Relays(desk, self.errands)
        self.crowds = Crowds(self._wait, self.relays.is_open)
        self._waits: set[asyncio.Task[Task]] = set()
        self._is_stopping = False

    async def keep(
        self,
        ctx: RequestContext,
        task: Task,
        *,
        knows_task: bool,
        seconds: float = math.inf,
        heartbeat: Heartbeat | None = None,
    ) -> Task:
        """Return the task once it is terminal, or as it is after `seconds`, in which asking the client is not counted.

        A client that does not know of the task (`knows_task`) gets it back also when it asks what this client cannot
        be asked.

        Raises:
            Stopping: The server stops.
            TaskNotFound: The task's lifetime is over.
        """
        loop = asyncio.get_running_loop()
        heartbeat = heartbeat or Heartbeat(ctx, self._heartbeat)
        with self.relays.open(Peer(ctx, knows_task=knows_task), task) as relay:
            while not task.status.is_terminal and seconds > 0:
                relay.sees(task)
                if not knows_task and relay.leaves_unasked(task):
                    return task
                since, is_counted = loop.time(), not relay.is_asking
                pause = min(heartbeat.seconds_left(), _LONG_POLL_SECONDS)
                task = await self._wait(task, min(seconds, pause) if is_counted else pause)
                if is_counted:
                    seconds -= loop.time() - since
                await heartbeat.saw(task)
            relay.sees(task)
            await relay.settle()  # or the answer would close the stream before the question is taken back
        return task

    def stop(self) -> None:
        """End all waiting."""
        self._is_stopping = True
        for wait in self._waits:
            wait.cancel()

    async def _wait(self, task: Task, seconds: float) -> Task:
        if self._is_stopping:
            raise Stopping
        wait = asyncio.create_task(self._engine.wait(task, seconds))
        self._waits.add(wait)
        try:
            return await wait
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if self._is_stopping and current and not current.cancelling():
                raise Stopping from None
            raise
        finally:
            self._waits.discard(wait)
