"""One connection to a Redis: bytes out, replies in, in the order of the commands. It does not come back by itself."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, cast

import hiredis

from coatcheck.errors import StoreError, StoreUnavailable
from coatcheck.stores.redis.address import Address, Place
from coatcheck.stores.redis.refusals import NotNow, meaning

Word = str | bytes | int
Command = tuple[Word, ...]
_CONNECT_SECONDS = 5.0
_NOT_PRIMARY = (b"slave", b"sentinel")


def packed(command: Command) -> bytes:
    return hiredis.pack_command(command)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportArgumentType]


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


async def connect(address: Address, greeting: Sequence[Command] = ()) -> tuple[Connection, Address]:
    """Connect, log in, and have the greeting answered; return also where that was, of all places it might be.

    Raises:
        OSError, TimeoutError, NotNow: It may work later, or at the next place.
        StoreError: It will not.
    """
    async with asyncio.timeout(_CONNECT_SECONDS):
        if address.service is not None:
            address = address.at(await _ask_sentinel(address, address.service))
            greeting = (("ROLE",), *greeting)
        connection = await _reach(address)
        try:
            await _greet(connection, address, greeting)
        except BaseException as error:
            connection.abort(ConnectionError(str(error)))
            raise
    return connection, address


async def _greet(connection: Connection, address: Address, greeting: Sequence[Command]) -> None:
    hello: list[Command] = []
    if address.password is not None:
        hello.append(("AUTH", *([address.user] if address.user else []), address.password))
    if address.database:
        hello.append(("SELECT", address.database))
    # What is subscribed to comes last: from then on there may be messages among the replies.
    replies = await connection.ask([*hello, ("CLIENT", "SETNAME", "coatcheck"), *greeting])
    del replies[len(hello)]  # to have a name is no need
    for reply in replies:
        if isinstance(reply, hiredis.ReplyError):
            raise meaning(reply, address)
        if reply.__class__ is list and reply[0] in _NOT_PRIMARY:
            raise NotNow(f"{address} is not the primary, or not yet")


async def _ask_sentinel(address: Address, service: str) -> Place:
    """Return where the primary of a service is, as the first of its sentinels has it."""
    connection = await _reach(address)
    login = [("AUTH", address.sentinel_password)] if address.sentinel_password else []
    try:
        *said, place = await connection.ask([*login, ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)])
    finally:
        connection.abort(ConnectionError("it has told us"))
    for reply in (*said, place):
        if isinstance(reply, hiredis.ReplyError):
            raise StoreUnavailable(f"{address} refuses: {reply}; check that sentinels are there, and their password.")
    if place is None:
        raise StoreUnavailable(f"{address}: these sentinels watch no service {service!r}; name one they do.")
    return place[0].decode(), int(place[1])


async def _reach(address: Address) -> Connection:
    loop = asyncio.get_running_loop()
    try:
        _, connection = await loop.create_connection(Connection, *address.first, ssl=address.tls)
    except ssl.SSLCertVerificationError as error:
        raise _untrusted(address, error) from error
    return connection


def _untrusted(address: Address, error: ssl.SSLCertVerificationError) -> StoreError:
    return StoreUnavailable(
        f"{address} has a certificate that is not trusted ({error.verify_message}); name the file of its authority"
        " with ?ssl_ca_certs=."
    )
