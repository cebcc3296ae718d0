"""Tasks at work, shown on the terminal: a bar, what they say of themselves, and for how long already."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.text import Text

from coatcheck.cli.plain import one_line
from coatcheck.dialects.seen import Snapshot

_REFRESH_SECONDS = 0.1


class Display(Protocol):
    """What is told to a person while they wait."""

    def add(self, tool: str) -> int:
        """Begin to show a task; return its number."""
        ...

    def update(self, number: int, snapshot: Snapshot) -> None: ...

    def remove(self, number: int) -> None: ...

    @contextmanager
    def paused(self) -> Generator[None]:
        """Leave the terminal to someone else."""
        ...


class Silent:
    """Shows nothing: there is no terminal, or no wish."""

    def add(self, tool: str) -> int:
        return 0

    def update(self, number: int, snapshot: Snapshot) -> None: ...

    def remove(self, number: int) -> None: ...

    @contextmanager
    def paused(self) -> Generator[None]:
        yield


class Bars:
    """A line for each task."""

    def __init__(self, console: Console) -> None:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=24),
            _Amount(),
            _Elapsed(),
            TextColumn("{task.fields[message]}", markup=False),
        )
        self._progress = Progress(
            *columns,
            console=console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,  # results are printed while it is there
            redirect_stderr=False,
        )
        self._pauses = 0

    @asynccontextmanager
    async def shown(self) -> AsyncGenerator[None]:
        self._progress.start()
        self._show()
        refreshing = asyncio.create_task(self._refresh())
        try:
            yield
        finally:
            refreshing.cancel()
            with suppress(asyncio.CancelledError):
                await refreshing
            self._progress.stop()

    def add(self, tool: str) -> int:
        number = self._progress.add_task(one_line(tool), total=None, message="", since=datetime.now(UTC))
        self._show()
        return number

    def update(self, number: int, snapshot: Snapshot) -> None:
        done, total = (snapshot.progress.done, snapshot.progress.total) if snapshot.progress else (0, None)
        message = one_line(snapshot.message or "") or snapshot.status.value.replace("_", " ")
        since = snapshot.created_at or datetime.now(UTC)
        self._progress.update(TaskID(number), completed=done, total=total, message=message, since=since)
        self._show()

    def remove(self, number: int) -> None:
        self._progress.remove_task(TaskID(number))
        self._show()

    @contextmanager
    def paused(self) -> Generator[None]:
        self._pauses += 1
        self._progress.stop()
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._progress.start()

    def _show(self) -> None:
        if not self._pauses:
            self._progress.refresh()

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            self._show()


@asynccontextmanager
async def shown(console: Console, *, is_quiet: bool = False) -> AsyncGenerator[Display]:
    """Have a display for tasks, if there is a terminal to show it on."""
    if is_quiet or not console.is_terminal:
        yield Silent()
        return
    bars = Bars(console)
    async with bars.shown():
        yield bars


class _Amount(ProgressColumn):
    """`40%`, `3 of 10`, or nothing where it is not known."""

    def render(self, task: Task) -> Text:
        if not task.total:
            return Text(f"{task.completed:g}" if task.completed else "", style="progress.percentage")
        if float(task.total).is_integer() and float(task.completed).is_integer() and task.total != 100:
            return Text(f"{task.completed:g}/{task.total:g}", style="progress.percentage")
        return Text(f"{task.percentage:.0f}%", style="progress.percentage")


class _Elapsed(ProgressColumn):
    """For how long, in the clock of this machine."""

    def render(self, task: Task) -> Text:
        seconds = max(0, (datetime.now(UTC) - task.fields["since"]).total_seconds())
        return Text(str(timedelta(seconds=int(seconds))), style="progress.elapsed")
