"""The `Store` port. A store keeps rows and knows no rules: those are in `lifecycle`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from enum import Enum
from typing import Final, Protocol

import msgspec

from coatcheck.task import Entry, Position, Task


class Everyone(Enum):
    EVERYONE = "everyone"


EVERYONE: Final = Everyone.EVERYONE
"""In place of an owner: all owners. For operators and the sweep, never for a caller."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks to list: newest first, those older than `after`."""

    owner: str | Everyone | None
    is_held: bool = False
    """Only those a worker holds."""
    after: Position | None = None
    limit: int = 50


class Store(Protocol):
    """Keeps tasks. Every method is atomic; what it wrote is durable once it returns.

    Who may see what is the engine's to decide: a store leaves out what it is told to leave out, and knows no more.
    """

    async def insert(self, task: Task, *, quota: int | None = None) -> Task:
        """Keep a new task and return it, or return the one kept under its owner and idempotency key.

        Raises:
            QuotaExceeded: The owner has `quota` unfinished tasks already.
        """
        ...

    async def get(
        self,
        task_id: str,
        *,
        owner: str | Everyone | None = EVERYONE,
        alive_at: datetime | None = None,
        newer_than: int = 0,
        timeout: float = 0,
    ) -> Task | None:
        """Return the task, as soon as its version is above `newer_than` or `timeout` seconds have passed.

        One of another `owner`, or whose lifetime has run out by `alive_at`, is as if it were not there: nothing of it
        is read but what it is found by, so it takes no longer than an id nobody has, and is not waited for.
        """
        ...

    async def replace(self, task: Task, entries: Sequence[Entry] = ()) -> bool:
        """Write `task`, and append to its journal, if the kept version is `task.version - 1`; say whether it was."""
        ...

    async def delete(self, task: Task) -> bool:
        """Forget the task and its journal if the kept version is `task.version`; say whether it was."""
        ...

    async def list(self, query: Query) -> Sequence[Task]: ...

    async def journal(self, task_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        """Return the journal's entries in order, without the first `after`."""
        ...

    async def waiting(
        self, tools: Collection[str], *, limit: int, timeout: float, is_for_others: bool = False
    ) -> Sequence[Task]:
        """Return tasks that need a worker for one of `tools`, by full name, oldest first.

        If there are none, wait up to `timeout` seconds for one. `is_for_others`: tasks of all tools but these.
        """
        ...

    async def overdue(self, now: datetime, *, limit: int) -> Sequence[Task]:
        """Return tasks whose lease or lifetime has run out at `now`."""
        ...
