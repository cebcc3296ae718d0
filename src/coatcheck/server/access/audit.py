"""What callers did to tasks, as structured log events: who, what, which task; nothing of what is in it."""

from __future__ import annotations

import hashlib
import logging
from typing import Literal

from coatcheck.task import Task, is_family

logger = logging.getLogger("coatcheck.audit")

Event = Literal["create", "read", "list", "answer", "cancel", "deny"]
_LONGEST = 64


class Audit:
    """Off unless an operator wants it; then each event is one line, at level info."""

    def __init__(self, *, is_on: bool) -> None:
        self.is_on = is_on

    def note(self, event: Event, task: Task) -> None:
        """Say what was done to a task."""
        if self.is_on:
            self._log(event, task.owner, task=shown(task.id, task.owner), tool=task.call.tool, status=task.status.value)

    def listed(self, owner: str | None, count: int) -> None:
        if self.is_on:
            self._log("list", owner, count=count)

    def denied(self, owner: str | None, wanted: str, reason: str, *, task: str | None = None, **what: str) -> None:
        """Say what was refused, and why. `task`: the id that was given, whatever it may be."""
        if self.is_on:
            given = {} if task is None else {"task": shown(task, None)}
            named = {name: value[:_LONGEST] for name, value in what.items()}
            self._log("deny", owner, wanted=wanted, reason=reason, **given, **named)

    def _log(self, event: Event, owner: str | None, **fields: str | int) -> None:
        if owner and is_family(owner):
            owner = shown(owner, None)
        said = {"event": event, "owner": owner, **fields}
        text = " ".join(
            f"{name}={value!r}" if isinstance(value, str) else f"{name}={value}" for name, value in said.items()
        )
        logger.info("%s", text, extra={"fields": said})


def shown(task_id: str, owner: str | None) -> str:
    """Return an id as it may be written down: where knowing it is all it takes to have the task, a digest of it."""
    if owner is not None:
        return task_id
    return f"sha256:{hashlib.sha256(task_id.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
