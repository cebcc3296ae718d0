"""Tasks whose worker is gone, stands still or is cut off: others must free them within two leases.

Not of a clock: of the beats of those that could have done it. A beat is a rest and a write, so whatever keeps a worker
from its sweeps, a busy machine or a store that is away, keeps it from beating too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress

from coatcheck import Engine, StoreError, Task, TaskNotFound
from coatcheck.store import EVERYONE, Query
from tests.chaos.history import History
from tests.chaos.nodes import Node
from tests.chaos.terms import BEAT, LEASE

_LIMIT = 2.0 + 0.1
"""Leases: two, and what may be between two looks."""
_LOOKS = BEAT * 4


class Orphans:
    def __init__(self, nodes: Sequence[Node], engine: Engine, history: History) -> None:
        self._nodes, self._engine, self._history = [node for node in nodes if node.slots], engine, history
        self._watching: set[asyncio.Task[None]] = set()
        self._absences: dict[int, object] = {}
        """Of each process that is away, the one that lasts."""
        self.count = 0
        self.longest = 0.0
        """In leases."""

    def made(self, pid: int) -> None:
        """See that what a process holds, which has just gone, is freed in time; if it comes back, it may keep it."""
        absence = self._absences[pid] = object()
        watching = asyncio.create_task(self._watch_all(pid, absence))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)

    @contextmanager
    def while_away(self, pid: int) -> Generator[None]:
        self.made(pid)
        yield
        self._absences.pop(pid, None)

    async def settled(self) -> None:
        """Wait for all that are being watched."""
        while self._watching:
            await asyncio.gather(*self._watching)

    async def _watch_all(self, pid: int, absence: object) -> None:
        started = self._beats()
        with suppress(StoreError):
            held = await self._engine.store.list(Query(owner=EVERYONE, is_held=True, limit=1000))
            await asyncio.gather(*(self._watch(task, pid, absence, started) for task in held if _holder(task) == pid))

    async def _watch(self, task: Task, pid: int, absence: object, started: dict[int, int]) -> None:
        self.count += 1
        leases = 0.0
        while self._absences.get(pid) is absence:
            with suppress(StoreError):
                try:
                    now = await self._engine.get(task.id)
                except TaskNotFound:
                    break
                if (_holder(now), now.attempt) != (pid, task.attempt):
                    break
                if _is_renewed(now, task):  # so it is not quite as far away as that
                    task, started = now, self._beats()
            leases = max(self._beats_since(started, pid)) * BEAT / LEASE
            if leases > _LIMIT:
                self._history.wrong(task.id, "is still held by", pid, f"after {leases:.2f} leases")
                break
            await asyncio.sleep(_LOOKS)
        self.longest = max(self.longest, leases)

    def _beats(self) -> dict[int, int]:
        return {node.pid: node.beats for node in self._nodes}

    def _beats_since(self, started: dict[int, int], pid: int) -> list[int]:
        return [node.beats - started.get(node.pid, 0) for node in self._nodes if node.pid not in (0, pid)] or [0]


def _holder(task: Task) -> int:
    """Return the process that holds a task; 0: none does."""
    return int(task.lease.worker.split(":")[1]) if task.lease else 0


def _is_renewed(now: Task, before: Task) -> bool:
    """Whether its worker has kept it since, which nobody else does for it."""
    return bool(now.lease and before.lease and not now.lease.is_stalled and now.lease.until > before.lease.until)
