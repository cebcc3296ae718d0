"""Work in a process that outlives the one that started it: the side of that process. It runs one task, and ends."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from datetime import timedelta

import msgspec

from coatcheck.engine import Engine
from coatcheck.errors import Refused, TaskNotFound
from coatcheck.execution import Execution
from coatcheck.lifecycle import HandedOver, WorkerEvent
from coatcheck.liveness import name_worker
from coatcheck.runners.detached.letter import Letter, take
from coatcheck.runners.detached.target import load
from coatcheck.runners.detached.watchdog import Watchdog
from coatcheck.task import Task
from coatcheck.tool import Tool

logger = logging.getLogger("coatcheck")

Home = Callable[[Letter], AbstractAsyncContextManager[tuple[Engine, Iterable[Tool]]]]
"""Opens the app of a letter: an engine on its store, and its tools. No worker of its own may run there."""

_LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_NEVER = timedelta(days=36500)
_LAST_SECONDS = 2.0
"""For writing what became of a task that was stopped, beyond what work has to unwind."""
_LEAVE_SECONDS = 30.0
"""For what an app does after its task."""
_LOOK_SECONDS = 0.02


def main() -> None:
    """Run the task of the letter in the environment."""
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    letter = take(os.environ)
    sys.path[:] = letter.path or sys.path
    home: Home = load(letter.home)
    if asyncio.run(_run(home, letter)):
        _end_what_it_started()


async def _run(home: Home, letter: Letter) -> bool:
    """Say whether the task was stopped."""
    async with home(letter) as (engine, tools):
        logging.basicConfig(level=logging.INFO, format=_LOG_FORMAT)  # unless the app has logs as it likes them
        # Nobody may be there to start another process once a question is answered, so this one waits for the answer.
        policy = msgspec.structs.replace(engine.policy, park_after=_NEVER)
        engine = Engine(engine.store, policy, engine.clock)
        task, tool = await _take_over(engine, tools, letter)
        execution = _OneExecution(engine, task, tool)
        logger.info("Task %s is run by process %d, as attempt %d", task.id, os.getpid(), task.attempt)
        await execution.over.wait()
        await _threads(tool, policy.unwind.total_seconds())
        execution.leave()
    logger.info("Task %s is over", task.id)
    return execution.was_stopped


def _end_what_it_started() -> None:
    """What is left of work that was stopped must not go on without it, least of all beside a successor."""
    if os.getpgrp() == os.getpid():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)


async def _take_over(engine: Engine, tools: Iterable[Tool], letter: Letter) -> tuple[Task, Tool]:
    task = await engine.store.get(letter.task)
    if task is None:
        sys.exit(f"There is no task {letter.task} in the store.")
    name = task.call.full_name
    tool = next((tool for tool in tools if name in tool.full_names), None)
    if tool is None:
        sys.exit(f"There is no tool {name!r} in {letter.app}.")
    event = HandedOver(letter.attempt, name_worker(is_detached=True), engine.clock() + engine.policy.lease)
    try:
        return await engine.report(task, event), tool
    except (Refused, TaskNotFound) as error:
        sys.exit(f"The task is not to be run here any more: {error}")


class _OneExecution(Execution):
    """The only one of its process, which ends soon after it was stopped, whatever the tool does."""

    __slots__ = ("_unwind", "_watchdog", "over", "was_stopped")

    def __init__(self, engine: Engine, task: Task, tool: Tool) -> None:
        self.over, self.was_stopped = asyncio.Event(), False
        self._unwind = engine.policy.unwind.total_seconds()
        loop = asyncio.get_running_loop()
        super().__init__(engine, task, tool, lambda _: self.over.set())

        def stop() -> None:
            self._watchdog.give(self._unwind + _LAST_SECONDS)
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(self.give_up)

        self._watchdog = Watchdog(stop)

    def stop(self, parting: WorkerEvent | None = None) -> None:
        if not self.was_stopped:
            self.was_stopped = True
            self._watchdog.give(self._unwind + _LAST_SECONDS)
        super().stop(parting)

    def leave(self) -> None:
        """Nothing is left to do but to close the app, which may not take forever."""
        self._watchdog.give(self._unwind + _LAST_SECONDS if self.was_stopped else _LEAVE_SECONDS)


async def _threads(tool: Tool, seconds: float) -> None:
    """Let a plain function that was stopped clean up, in its thread."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while _is_running(tool) and loop.time() < deadline:  # noqa: ASYNC110, as a thread tells nobody of its end
        await asyncio.sleep(_LOOK_SECONDS)


def _is_running(tool: Tool) -> bool:
    return any(thread.name == f"coatcheck-{tool.name}" for thread in threading.enumerate())
