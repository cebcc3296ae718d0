"""The loop that claims tasks and runs them, and the sweep. One class serves in the server's process and in its own."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from coatcheck.engine import Engine
from coatcheck.errors import InvalidArgument, StoreError
from coatcheck.execution import Execution, wind_up
from coatcheck.liveness import name_worker
from coatcheck.payload import Payload
from coatcheck.policy import Duration, duration
from coatcheck.sweeping import Sweeper
from coatcheck.task import NOTHING, Task
from coatcheck.tool import Tool

logger = logging.getLogger("coatcheck")

_LONG_POLL_SECONDS = 60.0
_RETRY_SECONDS = 1.0


class TaskWorker(Protocol):
    """What a server needs of whoever runs its tasks: `Worker`, or one that has them carried elsewhere."""

    name: str

    def add(self, tool: Tool, *, replace: bool = False) -> None: ...

    def remove(self, name: str) -> None: ...

    async def submit(
        self,
        tool: str,
        arguments: Mapping[str, Any] | Payload = NOTHING,
        *,
        owner: str | None = None,
        ttl: Duration | msgspec.UnsetType | None = msgspec.UNSET,
        idempotency_key: str | None = None,
        meta: Mapping[str, Any] | Payload = NOTHING,
        made: Callable[[Task], None] | None = None,
        parent: Task | None = None,
    ) -> Task: ...


class Worker:
    """Runs up to `slots` tasks at once, of the tools it knows; leaves all others to workers that know them."""

    def __init__(self, engine: Engine, tools: Iterable[Tool], *, slots: int = 64, grace: Duration = 10.0) -> None:
        if slots < 1:
            raise InvalidArgument(f"slots must be at least 1, but it is {slots}.")
        self.name = name_worker()
        self._engine, self._grace = engine, duration("grace", grace)
        self._tools: dict[str, Tool] = {}
        self._runnable: dict[str, Tool] = {}
        """The tools by what tasks are called that they can run; never changed, only replaced."""
        self._strangers: set[str] = set()
        """What waits for other workers, as far as that has been said."""
        self._free = slots
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._poll: asyncio.Future[Sequence[Task]] | None = None
        self._is_stopping = True
        self._submits: set[asyncio.Task[Task]] = set()
        self._unstarted: set[str] = set()
        """Tasks that are written as claimed by this worker, perhaps: whoever learns first that they are starts them."""
        self._runs: set[Execution] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool, *, replace: bool = False) -> None:
        """Take one more tool, also while running; `replace` one of the same name, if there is one."""
        if tool.name in self._tools and not replace:
            raise InvalidArgument(f"There is a tool {tool.name!r} already; give this one another name.")
        self._forget(tool.name)
        self._tools[tool.name] = tool
        self._runnable = {**self._runnable, **dict.fromkeys(tool.full_names, tool)}
        self._poll_anew()

    def remove(self, name: str) -> None:
        """Run no more tasks of this tool than those under way; what waits is for others."""
        self._forget(name)
        self._poll_anew()

    async def __aenter__(self) -> Self:
        self._is_stopping = False
        self._context = contextvars.copy_context()
        self._claims, self._sweeps = asyncio.create_task(self._claim()), asyncio.create_task(self._sweep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def submit(
        self,
        tool: str,
        arguments: Mapping[str, Any] | Payload = NOTHING,
        *,
        owner: str | None = None,
        ttl: Duration | msgspec.UnsetType | None = msgspec.UNSET,
        idempotency_key: str | None = None,
        meta: Mapping[str, Any] | Payload = NOTHING,
        made: Callable[[Task], None] | None = None,
        parent: Task | None = None,
    ) -> Task:
        """Make a task for one of this worker's tools. With a slot free it is written as claimed, and starts at once.

        `made` is told of it before it starts here. `parent` is the task whose work makes it.

        Raises:
            InvalidArgument: There is no such tool, or a wish cannot be met.
            QuotaExceeded: The owner has too many unfinished tasks.
        """
        known = self._tools.get(tool)
        if known is None:
            have = ", ".join(sorted(self._tools)) or "none"
            raise InvalidArgument(f"There is no tool {tool!r} here; there is: {have}.")
        terms = known.terms if ttl is msgspec.UNSET else msgspec.structs.replace(known.terms, ttl=ttl)
        wishes: dict[str, Any] = {"owner": owner, "terms": terms, "meta": meta, "parent": parent}
        wishes["idempotency_key"] = idempotency_key
        if self._is_stopping or not self._reserve(1):
            task = await self._engine.submit(tool, arguments, **wishes)
            if made:
                made(task)
            return task
        # A caller that goes away in the middle must not leave a task that is claimed and never started.
        submit = asyncio.create_task(self._submit_claimed(tool, arguments, made, **wishes))
        self._submits.add(submit)
        submit.add_done_callback(self._submitted)
        return await asyncio.shield(submit)

    async def stop(self) -> None:
        """Claim no more, give running work its grace, then hand it to others, or fail it if it may not be run again."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._sweeps.cancel()
        self._has_room.set()
        self._poll_anew()
        await asyncio.gather(self._claims, self._sweeps, *self._submits, return_exceptions=True)
        if self._runs:
            seconds = self._grace.total_seconds()
            logger.info("Stopping; %d running tasks have %g seconds to finish", len(self._runs), seconds)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_idle.wait(), self._grace.total_seconds())
        await wind_up(self._runs, self._is_idle.wait, self._engine.policy)

    async def _submit_claimed(
        self,
        tool: str,
        arguments: Mapping[str, Any] | Payload,
        made: Callable[[Task], None] | None,
        *,
        idempotency_key: str | None,
        **rest: Any,
    ) -> Task:
        is_started, task_id, tools = False, self._engine.new_id(), self._runnable
        self._unstarted.add(task_id)
        try:
            task = await self._engine.submit(
                tool, arguments, idempotency_key=idempotency_key, claimed_by=self.name, task_id=task_id, **rest
            )
            if made:
                made(task)
            # Under a key it may be an earlier call's, and the row older than what has happened to it here since.
            is_ours = task.lease is not None and task.lease.worker == self.name
            if is_ours and task.id in self._unstarted:
                is_started = True
                self._unstarted.discard(task.id)
                self._start(task, tools)
            self._unstarted.discard(task_id)
        except Exception as error:
            if idempotency_key is None or not isinstance(error, StoreError):  # else a repeat may find it written
                self._unstarted.discard(task_id)
            raise
        finally:
            if not is_started:
                self._release(1)
        return task

    def _submitted(self, submit: asyncio.Task[Task]) -> None:
        self._submits.discard(submit)
        if not submit.cancelled():
            submit.exception()  # looked at in any case, or asyncio complains where nobody waits any more

    async def _claim(self) -> None:
        while await self._has_room.wait() and not self._is_stopping:
            try:
                tools = self._runnable
                offered = await self._offers()
                room = self._reserve(len(offered))
                claimed: Sequence[Task] = ()
                try:
                    claimed = await self._engine.claim(offered[:room], self.name)
                finally:
                    self._release(room - len(claimed))
                for task in claimed:
                    self._start(task, tools)
            except Exception as error:
                _complain("Cannot claim tasks just now", error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _offers(self) -> Sequence[Task]:
        """Wait for work. Only the waiting is ever interrupted: a claim under way is carried through."""
        poll = self._engine.waiting(tuple(self._runnable), limit=max(self._free, 1), timeout=_LONG_POLL_SECONDS)
        self._poll = asyncio.ensure_future(poll)
        await asyncio.wait((self._poll,))
        return () if self._is_stopping or self._poll.cancelled() else self._poll.result()

    def _poll_anew(self) -> None:
        if self._poll:
            self._poll.cancel()

    async def _sweep(self) -> None:
        sweeper = Sweeper(self._engine)
        while True:
            try:
                await sweeper.sweep()
                await self._note_strangers()
            except Exception as error:
                _complain("Cannot look after lost and expired tasks just now", error)
            await sweeper.rest()

    async def _note_strangers(self) -> None:
        """Say once, of each tool that is not known here, that its tasks wait."""
        known = {*self._runnable, *self._strangers}
        while task := await self._engine.unknown(known):
            name = task.call.full_name
            known.add(name)
            self._strangers.add(name)
            versions = ", ".join(sorted(other for other, tool in self._runnable.items() if tool.name == task.call.tool))
            logger.warning(
                "Task %s waits for a worker that knows %s; this one knows %s, and leaves it to others",
                task.id,
                name,
                versions or "no tool of that name",
            )

    def _forget(self, name: str) -> None:
        self._runnable = {full_name: tool for full_name, tool in self._runnable.items() if tool.name != name}
        self._tools.pop(name, None)

    def _start(self, task: Task, tools: Mapping[str, Tool]) -> None:
        """Run a task this worker holds, in a slot already reserved for it, by one of the `tools` it was offered for.

        Its context variables are the worker's, also if a request handed it in: it must run alike after a restart.
        """
        tool = tools[task.call.full_name]
        self._runs.add(self._context.copy().run(Execution, self._engine, task, tool, self._ended, self._aside))
        self._is_idle.clear()

    def _ended(self, execution: Execution) -> None:
        self._runs.discard(execution)
        if not self._runs:
            self._is_idle.set()
        self._release(1)

    def _aside(self, waits: bool) -> None:
        """Give a slot to others while its task waits for other tasks; it may come back to more than there are."""
        if waits:
            self._release(1)
        else:
            self._take(1)

    def _reserve(self, wanted: int) -> int:
        return self._take(max(min(wanted, self._free), 0))

    def _take(self, slots: int) -> int:
        self._free -= slots
        if self._free <= 0:
            self._has_room.clear()
        return slots

    def _release(self, slots: int) -> None:
        self._free += slots
        if self._free > 0:
            self._has_room.set()


def _complain(what: str, error: Exception) -> None:
    """A loop goes on whatever happens: who would claim and sweep if it died?"""
    logger.error("%s: %s", what, error, exc_info=None if isinstance(error, StoreError) else error)
