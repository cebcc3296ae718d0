"""What clients were told, and what was done to the processes meanwhile: all that the judgement rests on."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

TERMINAL = ("completed", "failed", "cancelled")


@dataclass(frozen=True)
class View:
    """A task as a client was told it is."""

    how: str
    asked_at: float
    heard_at: float
    status: str
    outcome: str | None
    """None: it was told the status alone."""

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    def agrees_with(self, other: View) -> bool:
        is_same = self.outcome == other.outcome or None in (self.outcome, other.outcome)
        return self.status == other.status and is_same


@dataclass
class Handed:
    """A task that a client was promised, and what it did about it."""

    id: str
    tool: str
    label: str
    views: list[View] = field(default_factory=list[View])
    answers: set[str] = field(default_factory=set[str])
    is_cancel_sent: bool = False
    cancelled_at: float | None = None
    """When a client was told that it is cancelled."""
    ended_at: float | None = None
    """When a client was told that its cancelling was heard, so that the task has ended, one way or another."""


class History:
    def __init__(self) -> None:
        self._began = asyncio.get_running_loop().time()
        self.tasks: dict[str, Handed] = {}
        self.ids: dict[str, str] = {}
        """By label: the task that a call became."""
        self.events: list[str] = []
        self.wrongs: list[str] = []
        self.unanswered = 0
        """Requests whose answer was lost, or was that there is none just now."""

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    def log(self, *words: object) -> None:
        self.events.append(f"{self.now:8.3f}  {' '.join(map(str, words))}")

    def wrong(self, *words: object) -> None:
        """Note what must not be."""
        self.log("WRONG", *words)
        self.wrongs.append(" ".join(map(str, words)))

    def acknowledged(self, task_id: str, tool: str, label: str) -> Handed:
        """Note that a call became a task; a repeat of it must be the same one."""
        known = self.ids.setdefault(label, task_id)
        if known != task_id:
            self.wrong(f"call {label} became two tasks, {known} and {task_id}")
        return self.tasks.setdefault(task_id, Handed(task_id, tool, label))


def outcome_of(seen: dict[str, Any]) -> str:
    """Return the outcome in what a poll of 2026-07-28, or a notification, says of a task."""
    if "result" in seen:
        return returned(seen["result"])
    return seen["error"]["message"] if "error" in seen else ""


def returned(result: dict[str, Any]) -> str:
    """Return what a tool returned, or what it said if it went wrong."""
    value = result.get("structuredContent")
    return json.dumps(result["content"] if value is None else value, sort_keys=True)
