"""Where callers come for their tasks: the engine's verbs in a caller's name, written down in the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coatcheck.engine import Engine
from coatcheck.errors import TaskNotFound
from coatcheck.server.access.audit import Audit
from coatcheck.task import Task


class Desk:
    """Each verb raises TaskNotFound if there is no such task of this owner."""

    def __init__(self, engine: Engine, audit: Audit) -> None:
        self.engine, self.audit = engine, audit

    async def get(self, task_id: str, owner: str | None) -> Task:
        try:
            task = await self.engine.get(task_id, owner)
        except TaskNotFound:
            self._deny("read", task_id, owner)
            raise
        self.audit.note("read", task)
        return task

    async def answer(
        self, task_id: str, owner: str | None, responses: Mapping[str, Any], *, is_final: bool = False
    ) -> Task:
        """As `Engine.answer`."""
        try:
            task = await self.engine.answer(task_id, owner, responses, is_final=is_final)
        except TaskNotFound:
            self._deny("answer", task_id, owner)
            raise
        self.audit.note("answer", task)
        return task

    async def cancel(self, task_id: str, owner: str | None) -> Task:
        """As `Engine.cancel`."""
        try:
            task = await self.engine.cancel(task_id, owner, "Cancelled by its caller")
        except TaskNotFound:
            self._deny("cancel", task_id, owner)
            raise
        self.audit.note("cancel", task)
        return task

    def _deny(self, wanted: str, task_id: str, owner: str | None) -> None:
        self.audit.denied(owner, wanted, "there is no such task of this caller", task=task_id)
