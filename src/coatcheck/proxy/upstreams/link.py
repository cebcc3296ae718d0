"""A connection that is looked after: lost, it is made again, ever more patiently, for everyone to see."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TypeVar

from mcp.shared.exceptions import MCPError

from coatcheck.client.connection import Connection, ConnectionLost
from coatcheck.client.link import Link
from coatcheck.errors import CannotConnect, NotAuthorized
from coatcheck.proxy.upstreams.backoff import Backoff

logger = logging.getLogger("coatcheck")
T = TypeVar("T")
Dial = Callable[[], Awaitable[Connection]]
_PROBE_SECONDS = 10.0


class State(StrEnum):
    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    ERROR = "error"


class SupervisedLink(Link):
    """What is new or urgent asks for `ready`, which tries at once; what has to go on uses `run`, which waits."""

    def __init__(
        self,
        make: Callable[[], Connection],
        dial: Dial,
        label: str,
        backoff: Backoff,
        told: Callable[[State, State], None],
    ) -> None:
        """`dial` opens a connection. `told` hears of every change: the state before, and the one after."""
        super().__init__(make, label, math.inf)
        self._dial = dial
        self.state, self.error = State.DISCONNECTED, ""
        self.attempt, self.next_try = 0, 0.0
        """How often it was tried to come back, and when it will be tried again, in the loop's time."""
        self._backoff, self._told = backoff, told
        self._coming_back: asyncio.Task[None] | None = None
        self._dialing: asyncio.Future[Connection] | None = None
        self._changed = asyncio.Event()
        self._is_closed = False

    @property
    def seconds_to_next_try(self) -> float:
        return max(0.0, self.next_try - asyncio.get_running_loop().time())

    async def ready(self) -> Connection:
        """Return a connection; if there is none, it is tried to make one, once.

        Raises:
            CannotConnect: There is none to be had just now.
        """
        if (connection := self._usable()) is not None:
            return connection
        async with self._opening:
            if (connection := self._usable()) is not None:
                return connection
            if self._is_closed:
                raise CannotConnect(f"{self._label} was disconnected")
            return await self._reach()

    async def open(self) -> Connection:
        """Return a connection; one that is being come back to is waited for.

        Raises:
            CannotConnect: It is not tried any longer.
        """
        while True:
            while self._is_coming_back():
                await self._changed.wait()
            try:
                return await self.ready()
            except CannotConnect:
                if not self._is_coming_back():
                    raise

    async def run(
        self,
        operation: Callable[[Connection], Awaitable[T]],
        *,
        is_repeatable: bool = True,
        is_urgent: bool = False,
    ) -> T:
        was_sent, is_first = False, True
        while True:
            waits = was_sent or not is_urgent
            connection = await (self.open() if waits else self.ready())
            try:
                return await operation(connection)
            except ConnectionLost as error:
                self.losses += 1
                self._lost(connection, str(error), is_final=error.is_final)
                was_sent = was_sent or error.was_sent
                if error.was_sent and not is_repeatable:
                    raise
                if is_urgent and not was_sent and not is_first:
                    raise CannotConnect(str(error)) from error
                is_first = False

    async def renew(self) -> Connection:
        """Leave the connection there is, and make another."""
        await self._end_coming_back()
        connection, self._connection = self._connection, None
        self._leave(connection)
        self._become(State.DISCONNECTED)
        return await self.ready()

    async def close(self) -> None:
        self._is_closed = True
        if self._dialing:
            self._dialing.cancel()
        await self._end_coming_back()
        await super().close()
        self._connection = None
        self._become(State.DISCONNECTED)

    def ended(self) -> None:
        """Take note that a connection, perhaps this one, has come to its end."""
        connection = self._connection
        if connection and connection.is_broken and not self._is_closed:
            self._lost(connection, "the connection was closed", is_final=True)

    def _is_coming_back(self) -> bool:
        return self.state is State.RECONNECTING

    def _usable(self) -> Connection | None:
        connection = self._connection
        return connection if self.state is State.CONNECTED and connection and not connection.is_broken else None

    def _lost(self, connection: Connection, reason: str, *, is_final: bool) -> None:
        if self._connection is not connection or self._is_closed:
            return
        self.error = reason
        if is_final:
            self._leave(connection)
            self._connection = None
        if self.state is not State.RECONNECTING:
            self._come_back()

    def _come_back(self) -> None:
        self._stop_coming_back()
        if self._plan():
            self._become(State.RECONNECTING)
            self._coming_back = asyncio.create_task(self._try_again())
        else:
            self._become(State.ERROR)

    def _plan(self) -> bool:
        """Set when to try next; say whether to."""
        delay = self._backoff.delay(self.attempt + 1)
        if delay is None:
            return False
        self.attempt += 1
        self.next_try = asyncio.get_running_loop().time() + delay
        return True

    async def _try_again(self) -> None:
        is_planned = True
        while is_planned:
            await asyncio.sleep(self.seconds_to_next_try)
            async with self._opening:
                if self.state is not State.RECONNECTING or self._is_closed:
                    return
                try:
                    await self._reach()
                    return
                except CannotConnect as error:
                    logger.info("%s cannot be reached yet: %s", self._label, error)
            is_planned = self._plan()
        self._coming_back = None
        self._become(State.ERROR)

    async def _reach(self) -> Connection:
        """Make sure of the connection there is, or make a new one."""
        is_coming_back = self.state is State.RECONNECTING
        if not is_coming_back:
            self._become(State.CONNECTING)
        try:
            connection = await self._kept() or await self._new()
        except CannotConnect as error:
            self.error = str(error)
            if self._is_closed:
                raise
            if isinstance(error, NotAuthorized):
                self._stop_coming_back()
                self._become(State.ERROR)
            elif not is_coming_back:
                self._come_back()
            raise
        self.attempt, self.error = 0, ""
        self._become(State.CONNECTED)
        if asyncio.current_task() is not self._coming_back:
            self._stop_coming_back()
        return connection

    async def _kept(self) -> Connection | None:
        """Return the connection there is, if the server still answers on it."""
        connection = self._connection
        if connection is None or connection.is_broken:
            return None
        try:
            await connection.request("tools/list", {}, timeout=_PROBE_SECONDS)
        except MCPError:
            return connection  # an answer is an answer
        except ConnectionLost as error:
            if not error.is_final:
                raise CannotConnect(str(error)) from error
            self._leave(connection)
            self._connection = None
            return None
        return connection

    async def _new(self) -> Connection:
        self._dialing = asyncio.ensure_future(self._dial())
        try:
            connection = await self._dialing
        except asyncio.CancelledError:
            current = asyncio.current_task()
            self._dialing.cancel()
            if self._is_closed and current and not current.cancelling():
                raise CannotConnect(f"{self._label} was disconnected") from None
            raise
        finally:
            self._dialing = None
        self._leave(self._connection)
        self._connection = connection
        return connection

    async def _end_coming_back(self) -> None:
        coming_back = self._coming_back
        self._stop_coming_back()
        if coming_back:
            await asyncio.gather(coming_back, return_exceptions=True)

    def _stop_coming_back(self) -> None:
        coming_back, self._coming_back = self._coming_back, None
        if coming_back:
            coming_back.cancel()

    def _become(self, state: State) -> None:
        before, self.state = self.state, state
        if before is not state:
            self._changed.set()
            self._changed = asyncio.Event()
            self._told(before, state)
