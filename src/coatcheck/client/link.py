"""A connection that is there when it is needed: made anew whenever it is gone, as long as there is patience."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from coatcheck.client.connection import Connection, ConnectionLost
from coatcheck.client.http import pause
from coatcheck.errors import CannotConnect, NotAuthorized

logger = logging.getLogger("coatcheck")
T = TypeVar("T")


class Link:
    def __init__(self, make: Callable[[], Connection], label: str, patience: float) -> None:
        """`patience`: for how many seconds to keep trying once the server is gone."""
        self._make, self._label, self._patience = make, label, patience
        self._connection: Connection | None = None
        self._opening = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()
        self.losses = 0
        """How often a connection was lost, or broke, so far."""

    @property
    def connection(self) -> Connection | None:
        """The one that was used last."""
        return self._connection

    async def open(self) -> Connection:
        """Return the connection there is, or a new one; tried once.

        Raises:
            CannotConnect: There is none to be had.
        """
        async with self._opening:
            if self._connection is None or self._connection.is_broken:
                connection = self._make()
                await connection.open()
                self._leave(self._connection)
                self._connection = connection
            return self._connection

    async def close(self) -> None:
        self._leave(self._connection)
        if self._closing:
            await asyncio.wait(self._closing)

    async def run(
        self,
        operation: Callable[[Connection], Awaitable[T]],
        *,
        is_repeatable: bool = True,
        is_urgent: bool = False,
    ) -> T:
        """Carry something out on a connection, again if that breaks.

        `is_repeatable`: whether it does no harm to do it twice. `is_urgent`: whether it is rather refused than kept
        waiting, by those links that make a difference.

        Raises:
            CannotConnect: There was no connection for as long as there is patience.
            ConnectionLost: It broke, and the operation is not repeatable.
        """
        loop, attempt, deadline = asyncio.get_running_loop(), 0, 0.0
        while True:
            connection = self._connection
            try:
                connection = await self.open()
                return await operation(connection)
            except NotAuthorized:
                raise
            except (CannotConnect, ConnectionLost) as error:
                if isinstance(error, ConnectionLost):
                    self.losses += 1
                    if error.is_final and self._connection is connection:
                        self._leave(connection)
                        self._connection = None
                    if error.was_sent and not is_repeatable:
                        raise
                deadline = deadline or loop.time() + self._patience
                if loop.time() > deadline:
                    raise CannotConnect(f"{self._label} was lost, and cannot be reached any more: {error}") from error
                logger.info("Trying %s again: %s", self._label, error)
                await asyncio.sleep(pause(attempt))
                attempt += 1

    def _leave(self, connection: Connection | None) -> None:
        """Close a connection without waiting for it: a process may take its time to end."""
        if connection:
            closing = asyncio.create_task(connection.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
