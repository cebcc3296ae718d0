"""One call of an upstream's tool, from the moment it is made: plain, or a task of the upstream's that is adopted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp.shared.exceptions import MCPError

from coatcheck.client.generations import Call, new_key
from coatcheck.client.handle import TaskHandle
from coatcheck.client.wire import Json, Params
from coatcheck.dialects.seen import Snapshot
from coatcheck.dialects.words import INVALID_PARAMS
from coatcheck.errors import CannotConnect, CoatcheckError, Interrupted, TaskLost, ToolFailed
from coatcheck.proxy.failures import as_mcp_error, state_unknown
from coatcheck.proxy.framing import neutral
from coatcheck.proxy.upstreams.upstream import Upstream
from coatcheck.task import Progress, Status

_CANCEL_SECONDS = 5.0
"""How long an upstream may take to say that it made a task, which then can be cancelled."""
Ask = Callable[[str, Json], Awaitable[Json]]
"""Puts a question of the call to whoever made it, as it is on the wire."""


class UpstreamCall:
    def __init__(
        self,
        upstream: Upstream,
        tool: str,
        arguments: Mapping[str, Any],
        ask: Ask,
        *,
        key: str | None = None,
        meta: Mapping[str, Any] | None = None,
        rounds: Mapping[str, Any] | None = None,
    ) -> None:
        """`meta`: what the caller said beside the arguments. `rounds`: what it has of earlier rounds of the call.

        With rounds, even none, questions that are asked before a tool begins are the call's answer, as long as nobody
        has taken over the asking.
        """
        self.upstream, self.tool, self._ask = upstream, tool, ask
        self.key = key or new_key()
        self.passes_rounds = rounds is not None
        self._call = Call(
            tool=tool,
            arguments=arguments,
            key=self.key,
            meta=meta or {},
            more=rounds or {},
            takes_rounds=lambda: self.passes_rounds,
        )
        self.on_progress: Callable[[Progress | None, str | None], object] | None = None
        self.told: tuple[Progress | None, str | None] = (None, None)
        """How far it was when it was last heard of."""
        self.on_notice: Callable[[str, Params], object] | None = None
        """Told of what the upstream logs while the call is under way."""
        self.on_adopted: Callable[[str], object] | None = None
        """Told of the id, if the upstream makes a task of it."""
        self.row_id: str | None = None
        """The task of the proxy's own that it is, if it is one."""
        self._handle: TaskHandle[Json] | None = None
        self._handed_in = asyncio.Event()
        self._asking: set[asyncio.Future[Json]] = set()
        self._stirred = asyncio.Event()
        self._ending: asyncio.Task[Json] | None = None

    # Begin

    def start(self) -> None:
        self._run(self._start())

    def repeat(self, *, is_worth_waiting: bool) -> None:
        """Make a call again that may have been made before, if the upstream can tell; otherwise its state is unknown.

        `is_worth_waiting`: the upstream could tell when the call was made, so one that is gone is waited for.
        """
        self._run(self._repeat(is_worth_waiting))

    def adopt(self, task_id: str) -> None:
        """Go on with a task that the upstream has."""
        self._run(self._adopt(task_id))

    def _run(self, call: Awaitable[TaskHandle[Json]]) -> None:
        self.upstream.calls[self.key] = self
        self._ending = asyncio.create_task(self._result(call))
        self._ending.add_done_callback(self._ended)

    # Follow

    @property
    def task_id(self) -> str | None:
        """The upstream's task, if it is one."""
        return self._handle.id if self._handle and self._handle.is_task else None

    @property
    def may_be_repeated(self) -> bool:
        """Whether the upstream could tell a repeat from another call, also over another connection."""
        connection = self.upstream.link.connection
        return connection is not None and connection.takes_keys and not connection.keys_end_with_session

    @property
    def is_asking(self) -> bool:
        return bool(self._asking)

    @property
    def has_ended(self) -> bool:
        return self._ending is not None and self._ending.done()

    async def settled(self, seconds: float, until: asyncio.Event | None = None) -> bool:
        """Wait until the call has ended or asks something, `seconds` at most. Returns whether it has ended.

        `until`: what else ends the wait.
        """
        assert self._ending
        if not self._ending.done() and not self.is_asking:
            others = [asyncio.ensure_future(event.wait()) for event in (self._stirred, until) if event]
            try:
                await asyncio.wait((self._ending, *others), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for other in others:
                    other.cancel()
        return self._ending.done()

    async def ended_within(self, seconds: float | None) -> bool:
        """Wait until the call has ended, whatever it asks."""
        assert self._ending
        await asyncio.wait((self._ending,), timeout=seconds)
        return self._ending.done()

    async def result(self) -> Json:
        """Return what the tool returned, without what frames it in one generation of the protocol.

        Raises:
            MCPError: The call ended with an error.
        """
        assert self._ending
        return await asyncio.shield(self._ending)

    async def ask(self, method: str, params: Json) -> Json:
        """Put a question of the upstream's to whoever made the call."""
        asking = asyncio.ensure_future(self._ask(method, params))
        self._asking.add(asking)
        self._stirred.set()
        try:
            return await asking
        finally:
            self._asking.discard(asking)
            if not self._asking:
                self._stirred.clear()

    async def cancel(self) -> None:
        """Have the upstream stop; also if it has yet to say that it made a task of the call."""
        if self._handle is None and not self.has_ended:
            await asyncio.wait((asyncio.ensure_future(self._handed_in.wait()),), timeout=_CANCEL_SECONDS)
        try:
            if self._handle and not self.has_ended:
                await self._handle.cancel()
        except (CoatcheckError, MCPError):
            pass  # it is gone, or does not want to: nobody waits for it any longer
        self.drop()

    def drop(self) -> None:
        """Follow it no longer; a task of the upstream's goes on."""
        if self._ending:
            self._ending.cancel()

    # How it goes

    async def _start(self) -> TaskHandle[Json]:
        await self.upstream.connect()
        return await self.upstream.desk.start(self._call, _as_it_is)

    async def _repeat(self, is_worth_waiting: bool) -> TaskHandle[Json]:
        try:
            await (self.upstream.link.open() if is_worth_waiting else self.upstream.connect())
        except CannotConnect as error:
            raise Interrupted(self.tool, f"the proxy that called it has ended, and {error}") from error
        return await self.upstream.desk.repeat(self._call, _as_it_is)

    async def _adopt(self, task_id: str) -> TaskHandle[Json]:
        return self.upstream.desk.attach(Snapshot(id=task_id, status=Status.WORKING), None, _as_it_is)

    async def _result(self, call: Awaitable[TaskHandle[Json]]) -> Json:
        try:
            handle = self._handle = await call
            handle.on_change = self._changed
            self._handed_in.set()
            if handle.is_task:
                self.upstream.tasks[handle.id] = self
                if self.on_adopted:
                    self.on_adopted(handle.id)
            return neutral(await handle.result())
        except (CoatcheckError, MCPError) as error:
            raise self._told_of(error) from error

    def _told_of(self, error: Exception) -> MCPError:
        """Return an error as the caller gets it. The id of a task that a server has lost is nobody's business."""
        if self.task_id and _is_loss(error):
            message = f"Server {self.upstream.name!r} has lost the task that {self.tool!r} was carried out by"
            return state_unknown(f"{message}; look whether it was before you call it again", self.upstream.name)
        return as_mcp_error(error, self.upstream.name)

    def progressed(self, progress: Progress, message: str | None) -> None:
        """Pass on how far it is, as the upstream says."""
        self._tell(progress, message)

    def _changed(self, snapshot: Snapshot) -> None:
        if self.task_id and not snapshot.is_terminal:
            self._tell(snapshot.progress, snapshot.message)

    def _tell(self, progress: Progress | None, message: str | None) -> None:
        if self.on_progress and self.told != (progress, message):
            self.told = (progress, message)
            self.on_progress(progress, message)

    def _ended(self, ending: asyncio.Task[Json]) -> None:
        if not ending.cancelled():
            ending.exception()  # looked at, in case nobody else does
        self.upstream.calls.pop(self.key, None)
        self._handed_in.set()
        for asking in self._asking:
            asking.cancel()  # nobody wants to know any more
        if self._handle:
            self.upstream.tasks.pop(self._handle.id, None)


def _is_loss(error: Exception) -> bool:
    if isinstance(error, ToolFailed):
        return error.code == INVALID_PARAMS and "not found" in error.message.lower()
    return isinstance(error, TaskLost)


async def _as_it_is(raw: Json) -> Json:
    return raw
