"""Work in a process that outlives this one: the side of the process that starts it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import msgspec

from coatcheck.context import TaskContext
from coatcheck.errors import InvalidArgument, ToolFailed
from coatcheck.policy import Duration, duration
from coatcheck.runners.detached.letter import Letter
from coatcheck.runners.detached.spawn import Child, how_it_ended, our_python, placed, spawn
from coatcheck.task import Task
from coatcheck.tool import Tool

_LOOK_SECONDS = 0.05


class Launcher:
    """Starts processes for the tasks of one app, and no more at once than there may be."""

    def __init__(
        self,
        *,
        store: str,
        home: str,
        app: str,
        more: Mapping[str, Any] | None = None,
        logs: Path | None = None,
        at_most: int = 32,
        start_within: Duration = 120.0,
        python: str | None = None,
    ) -> None:
        """`store` is the URL of the tasks, `app` names what has the tools, `home` the function that opens it, which is
        told `more`.

        A process that has not taken its task over after `start_within` is ended, and the task fails.

        Raises:
            InvalidArgument: The store cannot be shared between processes, or a number cannot be used.
        """
        if urlsplit(store).scheme == "memory":
            raise InvalidArgument(
                "A process of its own cannot share memory://; to detach tasks, keep them in a file, as sqlite:///tasks.db."
            )
        if at_most < 1:
            raise InvalidArgument(f"at_most must be at least 1, but it is {at_most}.")
        self._store, beside = placed(store)
        self._home, self._app, self._more, self._logs = home, app, dict(more or {}), logs or beside
        self._python = our_python() if python is None else python
        self._at_most, self._start_within = at_most, duration("start_within", start_within)
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    def detach(self, tool: Tool) -> Tool:
        """Return the tool as one that is run in processes of their own."""
        # How long a run may take is for that process to see to: it has yet to begin.
        return msgspec.structs.replace(tool, work=self._run, timeout=None)

    async def start(self, task: Task) -> Child:
        """Start a process for a task this process holds, once there is room for one more.

        Raises:
            ToolFailed: It cannot be started.
        """
        loop = asyncio.get_running_loop()
        places = self._places.setdefault(loop, asyncio.Semaphore(self._at_most))
        await places.acquire()
        letter = Letter(
            task=task.id,
            attempt=task.attempt,
            store=self._store,
            home=self._home,
            app=self._app,
            more=self._more,
            path=tuple(sys.path),
        )
        try:
            child = spawn(letter, self._logs, self._python)
        except OSError as error:
            places.release()
            raise ToolFailed(f"No process could be started for the tool: {error}") from error
        child.ended.add_done_callback(lambda _: places.release())
        return child

    async def _run(self, context: TaskContext, arguments: Mapping[str, Any]) -> NoReturn:
        """Start the process and stay until it has taken the task over, which ends this work as any that lost its task.

        Raises:
            ToolFailed: It did not.
        """
        attempt, limit = context.task.attempt, self._start_within
        child = await self.start(context.task)
        try:
            async with asyncio.timeout(limit.total_seconds()):
                code = await asyncio.shield(child.ended)
        except TimeoutError:
            child.kill()
            raise ToolFailed(f"The tool's process did not begin within {limit}; its log is {child.log}") from None
        except asyncio.CancelledError:
            await _part(context, attempt, child)
            raise
        # Should it have taken the task over and ended since, nobody hears this: it speaks for an earlier attempt.
        raise ToolFailed(f"The tool's process ended before it began ({how_it_ended(code)}); its log is {child.log}")


async def _part(context: TaskContext, attempt: int, child: Child) -> None:
    """The task was taken over, or taken away, or this worker is being shut down and it will soon be taken over."""
    while context.is_stopping and context.task.attempt == attempt and not child.ended.done():
        if context.task.lease is None:
            child.kill()
            return
        await asyncio.wait((child.ended,), timeout=_LOOK_SECONDS)
