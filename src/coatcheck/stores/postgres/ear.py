"""Hears what others write, on a connection of its own; and knows when it cannot, as behind some poolers."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Protocol

from coatcheck.stores.postgres.connections import Connections, end
from coatcheck.stores.postgres.driver import Backoff, Connection, connect, is_passing
from coatcheck.stores.postgres.schema import in_schema

logger = logging.getLogger("coatcheck")

_TEST_SECONDS = 2.0
_ANSWER_SECONDS = 5.0
_SULK_SECONDS = 30.0
POLL_SECONDS = (0.1, 1.0)
"""How often changes are looked for where they cannot be heard: at first, and if there are none for long."""
_TEST = "test"
_Act = Callable[[Connection], Awaitable[object]]


class Listener(Protocol):
    """Who is told of what is heard."""

    def on_ring(self, payload: str) -> None: ...

    def on_work(self, work: int) -> None:
        """There is work for our idle workers, and nobody else was told."""
        ...

    def on_doubt(self) -> None:
        """Nothing was heard for a while, so anything may have changed."""
        ...


class Ear:
    def __init__(self, connections: Connections, schema: str, channel: str, listener: Listener) -> None:
        self._connections, self._channel, self._listener = connections, channel, listener
        self._offer = in_schema("select @.offer_1($1, $2)", schema)
        self._leave = in_schema("delete from @.idle where store = $1", schema)
        self._clear = in_schema("delete from @.idle where pg_try_advisory_xact_lock(store)", schema)
        """Whose lock can be had is gone, and could not say goodbye."""
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._doing: set[asyncio.Task[None]] = set()
        self._offered: frozenset[int] = frozenset()
        self._is_attending = False
        self._has_complained = False
        self._tested: asyncio.Future[None] = self._loop.create_future()
        self.is_hearing = False
        self.number = 0
        """Of this store, among those that hear: another one on every connection."""

    async def open(self) -> None:
        """Begin to listen; return when it is known whether there is anything to be heard."""
        is_known = asyncio.Event()
        self._listening = asyncio.create_task(self._listen(is_known))
        await is_known.wait()

    async def close(self) -> None:
        await self._do(lambda connection: connection.fetch(self._leave, self.number))
        self._listening.cancel()
        await asyncio.wait((self._listening, *self._doing))

    async def attend(self) -> None:
        """Hear of changes of tasks from now on: whoever reads after this misses none."""
        if self.is_hearing and not self._is_attending:
            await self._do(self._attend)

    async def relax(self) -> None:
        """Hear of tasks no more: nobody here waits for one."""
        if self.is_hearing and self._is_attending:
            self._is_attending = False  # before its turn has come: whoever waits from now on has to ask for it again
            await self._do(self._relax)

    async def offer(self, works: Collection[int]) -> None:
        """Let others know what idle workers here would do: whoever looks for work after this misses none."""
        if self.is_hearing and self._offered != works:
            await self._do(partial(self._register, works=frozenset(works)))

    async def check(self) -> None:
        """Make sure that the connection is alive."""
        if self.is_hearing:
            await self._do(lambda connection: connection.execute("select 1"))

    async def _listen(self, is_known: asyncio.Event) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._hear(is_known)
                backoff = Backoff()
            except Exception as error:
                logger.debug("Cannot listen just now: %r", error)
                if not is_passing(error):  # whoever is in between does not let us
                    self._complain()
                    is_known.set()
                    await asyncio.sleep(_SULK_SECONDS)
                elif backoff.is_over:
                    is_known.set()
            finally:
                await self._stop()
            await backoff.pause()

    async def _hear(self, is_known: asyncio.Event) -> None:
        """Listen at an address of our own until the connection is lost, if what is sent there arrives at all."""
        # Only once it is known that no pooler is in between may anything be left on a connection.
        connection = self._connection = await connect(self._connections.target, is_pooled=True)
        lost, self._tested = self._loop.create_future(), self._loop.create_future()
        connection.add_termination_listener(partial(_settle, lost))
        self.number = secrets.randbits(62)
        address = f"{self._channel}.{self.number}"
        await connection.add_listener(address, self._on_own)
        await self._connections.fetch("select pg_notify($1, $2)", address, _TEST)
        await asyncio.wait((lost, self._tested), timeout=_TEST_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not lost.done() and not self._tested.done():
            self._complain()
            is_known.set()
            await asyncio.wait((lost, self._tested), return_when=asyncio.FIRST_COMPLETED)  # better late than never
        if self._tested.done():
            await connection.fetch("select pg_advisory_lock($1)", self.number)
            await connection.fetch(self._clear)
            self.is_hearing = True
            self._listener.on_doubt()
            is_known.set()
            await lost

    async def _stop(self) -> None:
        was_hearing, self.is_hearing, self._is_attending = self.is_hearing, False, False
        self._offered = frozenset()
        connection, self._connection = self._connection, None
        if connection:
            await end(connection)
        if was_hearing:
            self._listener.on_doubt()

    async def _do(self, act: _Act) -> None:
        """Do one thing after the other, and do not break off if whoever wanted it goes away."""
        doing = asyncio.create_task(self._in_turn(act))
        self._doing.add(doing)
        doing.add_done_callback(self._doing.discard)
        await asyncio.shield(doing)

    async def _in_turn(self, act: _Act) -> None:
        async with self._turn:
            connection = self._connection
            if connection is None or not self.is_hearing:
                return
            watchdog = self._loop.call_later(_ANSWER_SECONDS, connection.terminate)
            try:
                await act(connection)
            except Exception as error:
                logger.debug("Listening is interrupted: %r", error)
                connection.terminate()
            finally:
                watchdog.cancel()

    async def _attend(self, connection: Connection) -> None:
        if not self._is_attending:
            await connection.add_listener(self._channel, self._on_ring)
            self._is_attending = True

    async def _relax(self, connection: Connection) -> None:
        await connection.remove_listener(self._channel, self._on_ring)

    async def _register(self, connection: Connection, works: frozenset[int]) -> None:
        self._offered = works  # before it is: should it be taken up at once, that is heard afterwards
        await connection.fetch(self._offer, self.number, list(works))

    def _on_ring(self, connection: object, pid: int, channel: str, payload: str) -> None:
        self._listener.on_ring(payload)

    def _on_own(self, connection: object, pid: int, channel: str, payload: str) -> None:
        if payload == _TEST:
            _settle(self._tested)
        else:
            self._offered = frozenset()
            self._listener.on_work(int(payload))

    def _complain(self) -> None:
        if not self._has_complained:
            self._has_complained = True
            logger.warning(
                "%s passes no notifications on, as poolers do that give every transaction another connection; "
                "changes are looked for every %g to %g s instead. To hear of them at once, connect directly.",
                self._connections.target.name,
                *POLL_SECONDS,
            )


def _settle(future: asyncio.Future[None], *_: object) -> None:
    if not future.done():
        future.set_result(None)
