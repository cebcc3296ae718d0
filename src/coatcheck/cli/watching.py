"""Waiting on behalf of a person, who may interrupt at any time: then tasks are left, cancelled, or waited for on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from coatcheck.cli.display import Display
from coatcheck.cli.exits import LeftRunning, StillRunning, Unanswered
from coatcheck.cli.output import question_text
from coatcheck.cli.plain import one_line
from coatcheck.cli.terminal import Terminal
from coatcheck.errors import NotAnswered
from coatcheck.task import Status

if TYPE_CHECKING:
    from coatcheck.client import TaskHandle

T = TypeVar("T")
_MENU = "[d]etach and keep it running, [c]ancel it, or go [o]n waiting? "

_IF_STARTED_AGAIN = "If it is resumable, the task goes on when its server is started again"


class Choice(Enum):
    DETACH = "detach"
    CANCEL = "cancel"
    GO_ON = "go on"


class Watch:
    """Waits for tasks, shows how they do, and minds Ctrl-C."""

    def __init__(
        self,
        terminal: Terminal,
        display: Display,
        asked: asyncio.Future[str],
        *,
        ends_server: bool = False,
        come_back: str = "",
    ) -> None:
        """Make one for the tasks of one server.

        Args:
            asked: What is asked where nobody can be.
            ends_server: Whether the server ends when nobody waits any more.
            come_back: What `coatcheck wait ID` lacks to find a task.
        """
        self._terminal, self._display, self._asked, self._come_back = terminal, display, asked, come_back
        self._goes_on = _IF_STARTED_AGAIN if ends_server else "The task goes on"
        self.last_word = "This is no task, so the call was given up."
        """What to say to who leaves while there is no task to leave behind."""

    async def result(self, handle: TaskHandle[T], tool: str, *, is_task: bool = True) -> T:
        """Show a task until it has ended; return its result.

        Raises:
            Unanswered: It asks something, and there is nobody to be asked.
        """
        number = self._display.add(tool)
        self._display.update(number, handle.snapshot)
        asked = asyncio.get_running_loop().create_future() if is_task else self._asked
        collecting = asyncio.create_task(handle.result())
        showing = asyncio.create_task(self._show(handle, number, asked))
        try:
            await asyncio.wait({collecting, asked}, return_when=asyncio.FIRST_COMPLETED)
            if collecting.done():
                return collecting.result()
            why = f"It asks {one_line(asked.result())!r}, and there is nobody here to answer"
        except NotAnswered as error:
            why = f"{error}, but it still asks"
        finally:
            await _stop(showing)
            await _stop(collecting)
            self._display.remove(number)
        raise Unanswered(*await self._leave([handle] if is_task else [], why, "answer"))

    async def minding(
        self, work: Coroutine[Any, Any, T], tasks: Sequence[TaskHandle[Any]], timeout: float | None = None
    ) -> T:
        """Carry out `work`, which waits for `tasks` (it may add to them), and do as told when interrupted.

        Raises:
            StillRunning: It has not ended within `timeout` seconds.
            LeftRunning: The person left. So it is where there is nobody to be asked.
        """
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        working = asyncio.create_task(work)
        with self._terminal.hearing_interrupts():
            try:
                while True:
                    left = None if deadline is None else max(0, deadline - loop.time())
                    is_interrupted = await self._interrupted_before(working, timeout=left)
                    if working.done():
                        return working.result()
                    if not is_interrupted:
                        raise StillRunning(*await self._leave(tasks, f"No result after {timeout:g} seconds"))
                    await self._obey(await self._choose(working, tasks), tasks)
            finally:
                await _stop(working)

    async def _show(self, handle: TaskHandle[Any], number: int, asked: asyncio.Future[str]) -> None:
        async for snapshot in handle.events():
            self._display.update(number, snapshot)
            if snapshot.status is Status.INPUT_REQUIRED and not self._terminal.has_person and not asked.done():
                questions = [question_text(question) for question in snapshot.questions.values()]
                asked.set_result("; ".join(questions) or snapshot.message or "something")

    async def _interrupted_before(self, *events: asyncio.Future[Any], timeout: float | None = None) -> bool:
        interruption = asyncio.create_task(self._terminal.interrupted())
        try:
            await asyncio.wait({*events, interruption}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            return interruption.done()
        finally:
            interruption.cancel()

    async def _obey(self, choice: Choice, tasks: Sequence[TaskHandle[Any]]) -> None:
        if choice is Choice.CANCEL:
            await asyncio.gather(*(task.cancel() for task in tasks))
        elif choice is Choice.DETACH:
            raise LeftRunning(*await self._leave(tasks, "Interrupted"))

    async def _choose(self, working: asyncio.Task[Any], tasks: Sequence[TaskHandle[Any]]) -> Choice:
        """Ask what to do. A second Ctrl-C means to leave; what ends meanwhile needs no choice."""
        if not self._terminal.has_person or not tasks:
            return Choice.DETACH
        with self._display.paused():
            asking = asyncio.create_task(self._ask())
            try:
                is_interrupted = await self._interrupted_before(asking, working)
                if working.done():
                    return Choice.GO_ON
                return Choice.DETACH if is_interrupted else asking.result()
            finally:
                await _stop(asking)

    async def _ask(self) -> Choice:
        self._terminal.show("")
        while True:
            try:
                word = (await self._terminal.type(_MENU)).strip().lower()
            except EOFError:
                return Choice.DETACH
            for choice, letter in ((Choice.DETACH, "d"), (Choice.CANCEL, "c"), (Choice.GO_ON, "o")):
                if word in (letter, choice.value):
                    return choice
            self._terminal.show("  Type d, c or o; Ctrl-C once more detaches.", "yellow")

    async def _leave(self, tasks: Sequence[TaskHandle[Any]], why: str, command: str = "wait") -> tuple[str, str | None]:
        """Let go of the tasks; return what to say of them, and which it is if it is one."""
        self._terminal.is_leaving = True
        for task in tasks:
            await task.detach()
        match tasks:
            case []:
                return f"{why}. {self.last_word}", None
            case [task]:
                again = f"coatcheck {command}{self._come_back} {task.id}"
                return f"{why}. {self._goes_on}; come back with: {again}", task.id
            case _:
                return f"{why}. There are {len(tasks)} tasks left; come back with: coatcheck resume", None


async def _stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
