"""A few connections, lent for one statement each; opened when they are needed, and again when they are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from coatcheck.errors import StoreUnavailable
from coatcheck.stores.postgres.driver import (
    PATIENCE,
    SETTINGS,
    Backoff,
    Connection,
    connect,
    explain,
    is_from_pooler,
    is_passing,
)
from coatcheck.stores.postgres.target import Target

_MOST = 4
_ANSWER_SECONDS = 5.0
"""A connection that has not answered by then is given up: half of an operation's patience is left for another."""
_BEGIN = f"begin; {'; '.join(f'set local {setting}' for setting in SETTINGS if not setting.startswith('default'))}"


class Connections:
    """Every statement is a transaction of its own, and leaves nothing on the connection: so none is ever reset."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._is_pooled = True
        self._loop = asyncio.get_running_loop()
        self._free: list[Connection] = []
        self._permits = asyncio.Semaphore(_MOST)
        self._asked: set[asyncio.Task[Sequence[Any]]] = set()
        self._is_open = True

    async def fetch(self, statement: str, *values: object) -> Sequence[Any]:
        """Run a statement once; whoever calls it knows whether it may be repeated."""
        connection = await self._borrow()
        watchdog = self._loop.call_later(_ANSWER_SECONDS, connection.terminate)
        try:
            if self._is_pooled:
                return await _fetch_alone(connection, statement, *values)
            return await connection.fetch(statement, *values)
        finally:
            watchdog.cancel()
            self._give_back(connection)

    async def ask(self, statement: str, *values: object) -> Sequence[Any]:
        """Run a statement that only reads, again if need be, for as long as there is patience.

        A caller that goes away leaves it running: to break off a statement costs more than to let it end.
        """
        asked = asyncio.create_task(self._ask(statement, *values))
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        return await asyncio.shield(asked)

    async def close(self) -> None:
        """End all connections, once what was asked on them is answered."""
        if self._asked:
            await asyncio.wait(self._asked)
        self._is_open = False
        for _ in range(_MOST):
            await self._permits.acquire()
        for connection in self._free:
            await end(connection)
        self._free.clear()
        for _ in range(_MOST):
            self._permits.release()

    def expect(self, *, is_pooled: bool) -> None:
        """Say whether a pooler in between may give every transaction another connection. If unsure, it does."""
        if is_pooled is not self._is_pooled:
            self._is_pooled = is_pooled
            for connection in self._free:
                connection.terminate()

    def note(self, error: BaseException) -> None:
        """Learn from what went wrong: only a pooler loses what was prepared."""
        if is_from_pooler(error):
            self.expect(is_pooled=True)

    async def _ask(self, statement: str, *values: object) -> Sequence[Any]:
        backoff = Backoff()
        while True:
            try:
                return await self.fetch(statement, *values)
            except Exception as error:
                self.note(error)
                if not is_passing(error) or backoff.is_over:
                    raise explain(error, self.target) from error
            await backoff.pause()

    async def _borrow(self) -> Connection:
        if self._permits.locked():
            async with asyncio.timeout(PATIENCE):  # or the last would wait until a server that hangs has kept all
                await self._permits.acquire()
        else:
            await self._permits.acquire()
        try:
            return await self._take()
        except BaseException:
            self._permits.release()
            raise

    def _give_back(self, connection: Connection) -> None:
        if not connection.is_closed():
            self._free.append(connection)
        self._permits.release()

    async def _take(self) -> Connection:
        if not self._is_open:
            raise StoreUnavailable("The store is closed; open it again.")
        while self._free:
            connection = self._free.pop()
            if not connection.is_closed():
                return connection
        return await connect(self.target, is_pooled=self._is_pooled)


async def _fetch_alone(connection: Connection, statement: str, *values: object) -> Sequence[Any]:
    """Run it with the settings it needs, where the next transaction may have another connection."""
    try:
        await connection.execute(_BEGIN)
        rows = await connection.fetch(statement, *values)
        await connection.execute("commit")
    except BaseException:
        connection.terminate()
        raise
    return rows


async def end(connection: Connection) -> None:
    """Say goodbye, but do not wait long for an answer."""
    try:
        await connection.close(timeout=1)
    except Exception:
        connection.terminate()
