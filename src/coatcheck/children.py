"""Tasks that the work of another task made: what becomes of them when that one is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from coatcheck.errors import AlreadyFinished, Refused, TaskNotFound
from coatcheck.task import Position, Status, Task

_PAGE = 100


class Verbs(Protocol):
    """What is asked of the engine."""

    async def get(self, task_id: str, owner: str | None = None) -> Task: ...

    async def list(
        self, owner: str | None = None, *, after: Position | None = None, limit: int = 50
    ) -> Sequence[Task]: ...

    async def cancel(self, task_id: str, owner: str | None = None, reason: str | None = None) -> Task: ...


async def cancel_children(engine: Verbs, parent: Task) -> None:
    """Cancel what the work of a cancelled task made, and what that made in turn."""
    after: Position | None = None
    while children := await engine.list(parent.as_owner, after=after, limit=_PAGE):
        await asyncio.gather(*(_cancel(engine, child) for child in children if not child.status.is_terminal))
        if len(children) < _PAGE:
            break
        after = children[-1].position


async def stay_with(engine: Verbs, parent: Task, child: Task) -> None:
    """Cancel a child whose parent was cancelled while it was made: whoever cancelled may not have seen it.

    Raises:
        AlreadyFinished: It was.
    """
    with suppress(TaskNotFound):
        kept = await engine.get(parent.id, parent.owner)
        if kept.status is Status.CANCELLED:
            await _cancel(engine, child)
            raise AlreadyFinished(parent.id, kept.status)


async def _cancel(engine: Verbs, child: Task) -> None:
    with suppress(Refused, TaskNotFound):
        await engine.cancel(child.id, child.owner, "The task that made it was cancelled")
