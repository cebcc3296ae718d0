"""The judgement: from what clients were told and what tools wrote down, and only then from what the store has."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from coatcheck import Engine, Status, Task
from coatcheck.engine import utc_now
from tests.chaos.clients import RESUMABLE, TOOLS
from tests.chaos.history import Handed, History, View

_HONEST = ("not resumable", "tool is not resumable")


class Judge:
    def __init__(self, history: History, folder: Path) -> None:
        self._history = history
        log = folder / "log.txt"
        lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        self._done = Counter((label, word) for label, word, _ in lines)

    def judge_clients(self) -> None:
        """Judge each task by what was said of it to clients, and what its tool really did."""
        for task in self._history.tasks.values():
            ends = [view for view in task.views if view.is_terminal]
            if not ends:
                self._wrong(task, "never ended")
                continue
            self._judge_views(task, ends)
            self._judge_cancelling(task, ends[-1])
            self._judge_outcome(task, next((view for view in ends if view.outcome is not None), ends[-1]))

    def _judge_views(self, task: Handed, ends: Sequence[View]) -> None:
        first = min(ends, key=lambda view: view.heard_at)
        for view in ends:
            for other in ends:
                if not view.agrees_with(other):
                    self._wrong(task, "has two outcomes:", view, other)
                    return
        for view in task.views:
            if not view.is_terminal and view.asked_at > first.heard_at and not view.how.startswith("push"):
                self._wrong(task, "went on after its end:", first, view)

    def _judge_cancelling(self, task: Handed, end: View) -> None:
        if end.status == "cancelled" and not task.is_cancel_sent:
            self._wrong(task, "is cancelled, but nobody asked for that")
        if task.cancelled_at is not None and end.status != "cancelled":
            self._wrong(task, "was said to be cancelled, and then", end)
        for view in task.views:
            if task.ended_at is not None and view.asked_at > task.ended_at and not view.is_terminal:
                self._wrong(task, "went on after cancelling it was acknowledged:", view)

    def _judge_outcome(self, task: Handed, end: View) -> None:
        is_resumable = task.tool in RESUMABLE
        if not is_resumable and self._done[task.label, "ran"] > 1:
            self._wrong(task, "may run once, but ran", self._done[task.label, "ran"], "times")
        if end.status == "completed":
            result: Any = json.loads(end.outcome or "null")
            if not self._is_right(task, result):
                self._wrong(task, "has a result that is not its own:", result)
        if end.status == "failed" and (is_resumable or not any(words in (end.outcome or "") for words in _HONEST)):
            self._wrong(task, "failed:", end.outcome)

    def _is_right(self, task: Handed, result: Any) -> bool:
        """Whether a result is what the tool returns for this call, and the tool really did it."""
        taken = [f"{task.label}/{number}" for number in range(3)]
        match task.tool:
            case "steps":
                return result == {"result": taken} and all(self._done[task.label, f"step-{n}"] for n in range(3))
            case "ask":
                rights = [{"result": [taken[0], answer, taken[1]]} for answer in task.answers]
                return result in rights and all(self._done[task.label, f"step-{number}"] for number in range(2))
            case _:
                return result == {"result": task.label} and self._done[task.label, "ran"] == 1

    async def judge_rows(self, engine: Engine) -> None:
        """Judge what the store has, with nobody left at work: what was acknowledged, and nothing that would stay."""
        rows = await all_rows(engine)
        found = {row.id: row for row in rows}
        for task in self._history.tasks.values():
            row = found.get(task.id)
            if row is None:
                self._wrong(task, "was acknowledged, and is not there")
            elif (end := next(view for view in task.views if view.is_terminal)).status != row.status.value:
                self._wrong(task, "is", row.status.value, "but was", end)
        for row in rows:
            await self._judge_row(engine, row)
        for key, count in Counter(row.idempotency_key for row in rows).items():
            if count > 1:
                self._history.wrong(count, "tasks for the call", key)

    async def _judge_row(self, engine: Engine, row: Task) -> None:
        if row.expires_at is None or row.lease or row.input_requests:
            self._history.wrong("this row would stay, or has what only unfinished ones have:", row)
        if not row.status.is_terminal:
            self._history.wrong("nobody was told of this task, but it must end all the same:", row)
        if row.status is Status.COMPLETED and row.resumable:
            journal = await engine.journal(row.id)
            if len({entry.key for entry in journal}) != len(journal) or len(journal) != row.entries:
                self._history.wrong("steps were recorded twice:", row, journal)
            again = max((count for (label, _), count in self._done.items() if label == row.idempotency_key), default=0)
            if again > row.attempt:
                self._history.wrong("a step was run more often than the task:", row, again)

    def _wrong(self, task: Handed, *words: object) -> None:
        self._history.wrong(task.id, f"({task.tool} {task.label})", *words)


async def all_rows(engine: Engine) -> list[Task]:
    rows: list[Task] = []
    while page := await engine.list_all(after=rows[-1].position if rows else None):
        rows += page
    return rows


async def forget_everything(engine: Engine) -> None:
    """Do what a sweep does when all lifetimes are over."""
    later = utc_now() + timedelta(days=400)
    await Engine(engine.store, engine.policy, clock=lambda: later).sweep()


async def wake_the_dead(engine: Engine) -> None:
    """Call all tools once more: what killed processes left to be woken by is found out to be useless, and dropped."""
    for tool in TOOLS:
        await engine.cancel((await engine.submit(tool)).id)
