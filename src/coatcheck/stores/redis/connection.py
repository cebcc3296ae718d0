"""One connection to a Redis: bytes out, replies in, in the order of the commands. It does not come back by itself."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, cast

import hiredis

from coatcheck.errors import StoreError, StoreUnavailable
from coatcheck.stores.redis.address import Address
from coatcheck.stores.redis.refusals import meaning

Word = str | bytes | int
Command = Sequence[Word]
_CONNECT_SECONDS = 5.0


def packed(command: Command) -> bytes:
    return hiredis.pack_command(tuple(command))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportArgumentType]


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._reader = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._reason: Exception | None = None
        self.on_replies: Callable[[list[Any]], None] = lambda replies: None
        self.on_lost: Callable[[Exception], None] = lambda reason: None

    def write(self, raw: bytes) -> None:
        if self._transport:
            self._transport.write(raw)

    def abort(self, reason: Exception) -> None:
        """Close it at once; what was not answered is lost, for `reason`."""
        self._reason = self._reason or reason
        if self._transport:
            self._transport.abort()

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Return the replies to commands: for as long as nobody else wants to hear of any."""
        replies: list[Any] = []
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def take(some: list[Any]) -> None:
            replies.extend(some)
            if len(replies) >= len(commands) and not answered.done():
                answered.set_result(None)

        def fail(reason: Exception) -> None:
            if not answered.done():
                answered.set_exception(reason)

        self.on_replies, self.on_lost = take, fail
        self.write(b"".join(map(packed, commands)))
        await answered
        return replies

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if plain := transport.get_extra_info("socket"):
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        reader, replies = self._reader, list[Any]()
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not False:
                replies.append(reply)
        except hiredis.ProtocolError as error:
            self.abort(ConnectionError(f"what answers there is no Redis: {error}"))
        self.on_replies(replies)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.on_lost(self._reason or exc or ConnectionError("it closed the connection"))


async def connect(address: Address, greeting: Sequence[Command] = ()) -> Connection:
    """Connect, log in, and have the greeting answered.

    Raises:
        OSError, TimeoutError, NotNow: It may work later.
        StoreError: It will not.
    """
    hello: list[Command] = []
    if address.password is not None:
        hello.append(("AUTH", *([address.user] if address.user else []), address.password))
    if address.database:
        hello.append(("SELECT", address.database))
    hello.extend(greeting)
    async with asyncio.timeout(_CONNECT_SECONDS):
        connection = await _reach(address)
        try:
            replies = await connection.ask([*hello, ("CLIENT", "SETNAME", "coatcheck")])
            for reply in replies[: len(hello)]:
                if isinstance(reply, hiredis.ReplyError):
                    raise meaning(reply, address)
        except BaseException as error:
            connection.abort(ConnectionError(str(error)))
            raise
    return connection


async def _reach(address: Address) -> Connection:
    loop = asyncio.get_running_loop()
    try:
        _, connection = await loop.create_connection(Connection, address.host, address.port, ssl=address.tls)
    except ssl.SSLCertVerificationError as error:
        raise _untrusted(address, error) from error
    return connection


def _untrusted(address: Address, error: ssl.SSLCertVerificationError) -> StoreError:
    return StoreUnavailable(
        f"{address} has a certificate that is not trusted ({error.verify_message}); name the file of its authority"
        " with ?ssl_ca_certs=."
    )
