"""Tells other processes of what was written, once it is: one statement for all that has been written meanwhile.

It is not part of the transactions that write. PostgreSQL lets transactions that notify commit only one after the
other, each with its wait for the disk; this one waits for none. A ring that is lost costs time, never truth.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Iterable

from coatcheck.stores.postgres.connections import Connections
from coatcheck.stores.postgres.schema import in_schema

logger = logging.getLogger("coatcheck")

_KEY = 8
_MOST_KEYS = 980  # a payload has less than 8000 bytes
_MOST_PAYLOADS = 4
_EVERYTHING = "*"
_MANY, _REST_SECONDS = 4, 0.01
"""After telling of that many at once there is a rest, for more to gather: to tell costs as much as ten writes do."""


class Bell:
    def __init__(self, connections: Connections, schema: str, channel: str) -> None:
        self._connections, self._channel = connections, channel
        self._sql = in_schema("select @.ring_1($1, $2, $3, $4, $5)", schema)
        self._name = secrets.token_hex(_KEY // 2)
        self._keys: set[str] = set()
        self._works: Counter[int] = Counter()
        self._ringing: asyncio.Task[None] | None = None
        self._is_open = True
        self.ringer = 0
        """The number of our own store, which needs no telling."""

    def ring(self, keys: Iterable[str], works: Iterable[int] = ()) -> None:
        """Tell everybody that these tasks have changed; and for each of `works`, one store that has idle workers."""
        self._keys.update(keys)
        self._works.update(works)
        if self._ringing is None and (self._keys or self._works):
            self._ringing = asyncio.create_task(self._ring())

    def read(self, payload: str) -> list[str] | None:
        """Return which keys others rang, none if it was us; None: anything may have changed."""
        if payload.startswith(self._name):
            return []
        if payload[_KEY:] == _EVERYTHING:
            return None
        return [payload[start : start + _KEY] for start in range(_KEY, len(payload), _KEY)]

    async def close(self) -> None:
        """Tell what is still to be told."""
        self._is_open = False
        if self._ringing:
            await asyncio.wait((self._ringing,))

    async def _ring(self) -> None:
        while self._keys or self._works:
            told, payloads, works = len(self._keys) + self._works.total(), self._payloads(), self._works
            self._keys, self._works = set(), Counter[int]()
            try:
                values = (payloads, list(works), list(works.values()), self.ringer)
                await self._connections.fetch(self._sql, self._channel, *values)
            except Exception as error:
                self._connections.note(error)
                logger.debug("Others were not told of changes: %r", error)
            if told >= _MANY and self._is_open:
                await asyncio.sleep(_REST_SECONDS)
        self._ringing = None

    def _payloads(self) -> list[str]:
        keys = list(self._keys)
        chunks = [keys[start : start + _MOST_KEYS] for start in range(0, len(keys), _MOST_KEYS)]
        if len(chunks) > _MOST_PAYLOADS:
            chunks = [[_EVERYTHING]]
        return [self._name + "".join(chunk) for chunk in chunks]
