"""Hears what other stores have to tell this one, on a connection of its own, while anyone here waits for something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from coatcheck.stores.redis.address import Address
from coatcheck.stores.redis.link import Link

_PING_SECONDS = 5.0
_OPEN_SECONDS = 1.0


class Ears:
    def __init__(
        self, address: Address, channel: bytes, *, on_message: Callable[[bytes], None], on_deaf: Callable[[], None]
    ) -> None:
        """`on_deaf`: something may have been missed."""
        self._listeners = 0
        self._is_closed = False
        self._ping: asyncio.TimerHandle | None = None
        self._reply: asyncio.Future[Any] | None = None
        self._link = Link(
            address,
            [("SUBSCRIBE", channel)],
            on_connect=on_deaf,
            on_lost=self._on_lost,
            on_message=on_message,
        )

    @contextmanager
    def needed(self) -> Generator[None]:
        """While this lasts, the connection is looked after."""
        self._listeners += 1
        try:
            yield
        finally:
            self._listeners -= 1

    async def open(self, timeout: float) -> None:
        """Return once everything that is said from now on will be heard; or without that, if it cannot be had soon.

        As soon as it can, `on_deaf` is called.

        Raises:
            StoreError: It cannot be had at all.
        """
        if self._ping is None:
            self._ping = asyncio.get_running_loop().call_later(_PING_SECONDS, self._look_after)
        if self._link.is_connected:
            return
        reply = self._reply
        if reply is None or reply.done():
            reply = self._send_ping()
        if not self._link.has_trouble:
            await asyncio.wait([reply], timeout=min(timeout, _OPEN_SECONDS))
            if reply.done():
                reply.result()

    def follow(self, address: Address) -> None:
        """Listen where commands are sent to from now on."""
        self._link.renew(ConnectionError("commands have a new connection"), address)

    async def close(self) -> None:
        self._is_closed = True
        if self._ping:
            self._ping.cancel()
        await self._link.close(at_once=True)

    def _look_after(self) -> None:
        """Notice if the connection broke without a sign."""
        self._ping = None
        if self._listeners and not self._is_closed:
            self._ping = asyncio.get_running_loop().call_later(_PING_SECONDS, self._look_after)
            self._send_ping()

    def _on_lost(self) -> None:
        if self._listeners and not self._is_closed:
            self._send_ping()

    def _send_ping(self) -> asyncio.Future[Any]:
        """Return its reply, which comes once the channel is subscribed to."""
        self._reply = self._link.send("PING").reply
        self._reply.add_done_callback(ignore)
        return self._reply


def ignore(reply: asyncio.Future[Any]) -> None:
    """Whoever waits reads again every now and then, and is told then."""
    if not reply.cancelled():
        reply.exception()
