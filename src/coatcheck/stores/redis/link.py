"""All commands of a store on one connection, which is there when it is needed.

The commands of one turn of the event loop leave in one write, and replies are matched in their order. What was not
answered when a connection broke is sent again on the next, so every command must bear to be carried out twice.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from hiredis import ReplyError

from coatcheck.errors import StoreError, StoreUnavailable
from coatcheck.stores.redis.address import Address
from coatcheck.stores.redis.connection import Command, Connection, connect, packed
from coatcheck.stores.redis.refusals import Moved, NotHere, NotNow, is_unknown_script, meaning
from coatcheck.stores.redis.scripts import GET, in_full

_PATIENCE_SECONDS = 10.0
_LOOK_SECONDS = 1.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
_MOST_BYTES, _MOST_REQUESTS = 1 << 20, 256
"""What may be unanswered at a time: Redis keeps all replies in memory until we have read them."""
_FEW = 8


class Request:
    """A command, and its reply once there is one."""

    __slots__ = ("command", "is_light", "is_repeated", "on_reply", "raw", "reply", "since")

    def __init__(
        self,
        command: Command,
        on_reply: Callable[[Any], None] | None,
        reply: asyncio.Future[Any],
        since: float,
    ) -> None:
        self.command, self.raw, self.on_reply = command, packed(command), on_reply
        self.reply, self.since = reply, since
        self.is_light = command[0] == "HMGET" or command[1:2] == (GET.digest,)
        self.is_repeated = False
        """It was sent before, and may have been carried out."""


class Link:
    def __init__(
        self,
        address: Address,
        greeting: Sequence[Command],
        *,
        on_connect: Callable[[], None] = lambda: None,
        on_lost: Callable[[], None] = lambda: None,
        on_message: Callable[[bytes], None] | None = None,
    ) -> None:
        """`greeting` is what every new connection begins with. With `on_message`, it is one that subscribes."""
        self.address = self._home = self._aim = address
        self._greeting, self._on_connect, self._on_lost, self._on_message = greeting, on_connect, on_lost, on_message
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Request] = deque()
        self._sent: deque[Request] = deque()
        self._bytes_sent = 0
        self._connection: Connection | None = None
        self._dialing: asyncio.Task[None] | None = None
        self._is_flush_due = self._is_closed = False
        self._heard = self._now = 0.0
        self._pause = _SHORTEST_PAUSE
        self._trouble: Exception | None = None
        self._look: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        return not self._is_closed

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    @property
    def has_trouble(self) -> bool:
        """Whether the last connection, or the last try to have one, came to a bad end."""
        return self._trouble is not None

    def send(self, *command: str | bytes | int, on_reply: Callable[[Any], None] | None = None) -> Request:
        """Send a command; its reply may take until there is a connection.

        `on_reply` is told of a reply that is no error, even if nobody waits for it any more.
        """
        if self._is_closed:
            raise StoreUnavailable("The store is closed; open it again.")
        if not self._is_flush_due:
            self._is_flush_due = True
            self._now = self._loop.time()
            self._loop.call_soon(self._flush)
        request = Request(command, on_reply, self._loop.create_future(), self._now)
        self._queue.append(request)
        return request

    def renew(self, reason: Exception, address: Address | None = None) -> None:
        """Give up the connection; whatever is not answered goes to the next one, perhaps at another address."""
        if address:
            self._home = self._aim = address
        if self._connection:
            self._connection.abort(reason)

    async def close(self, *, at_once: bool = False) -> None:
        """Have everything answered that was sent, then hang up."""
        self._is_closed = True
        unanswered = [request.reply for request in (*self._sent, *self._queue)]
        if unanswered and not at_once:
            await asyncio.wait(unanswered, timeout=_PATIENCE_SECONDS)
        if self._dialing:
            self._dialing.cancel()
            await asyncio.wait([self._dialing])
        if self._look:
            self._look.cancel()
        self._fail([*self._sent, *self._queue], "The store was closed; open it again.")
        if self._connection:
            lost: asyncio.Future[Exception] = self._loop.create_future()
            self._connection.on_lost = lost.set_result
            self._connection.abort(ConnectionError("closed"))
            await lost

    def _flush(self, answered: int = 0) -> None:
        """Send what there is; of many that are light on the server only half, so that it answers these while we deal
        with its answers to those. `answered`: how many of those there are.
        """
        self._is_flush_due = False
        if self._look is None and self._queue:
            self._look = self._loop.call_later(_LOOK_SECONDS, self._look_after)
        if self._connection is None:
            self._dial()
            return
        if self._trouble:
            return  # it is just being given up
        queue, sent, parts = self._queue, self._sent, list[bytes]()
        half = max(_FEW, (answered + len(sent) + len(queue)) // 2)
        while queue and (not sent or (self._bytes_sent < _MOST_BYTES and len(sent) < _MOST_REQUESTS)):
            if len(sent) >= half and queue[0].is_light:
                break
            request = queue.popleft()
            if request.reply.done():
                continue  # whoever wanted it went away
            parts.append(request.raw)
            self._bytes_sent += len(request.raw)
            sent.append(request)
        if parts:
            self._connection.write(b"".join(parts))

    def _take(self, replies: list[Any]) -> None:
        self._heard = self._loop.time()
        is_well = False
        for reply in replies:
            if self._on_message and reply.__class__ is list and reply[0] == b"message":
                self._on_message(reply[2])
                continue
            if not self._sent:
                self.renew(ConnectionError(f"it said {reply!r:.100}, and nobody asked"))
                return
            request = self._sent.popleft()
            self._bytes_sent -= len(request.raw)
            if isinstance(reply, ReplyError):
                self._take_error(request, reply)
                continue
            is_well = True
            if request.on_reply:
                request.on_reply(reply)
            if not request.reply.done():
                request.reply.set_result(reply)
        if is_well:
            self._pause = _SHORTEST_PAUSE
        if self._queue:
            self._flush(len(replies))

    def _take_error(self, request: Request, error: ReplyError) -> None:
        if is_unknown_script(error):
            request.raw = packed(in_full(request.command))
            self._queue.append(request)
            return
        trouble = meaning(error, self.address)
        if isinstance(trouble, NotNow):
            self._queue.append(request)
            if self._trouble is None:
                self._trouble = trouble
                self._loop.call_soon(self.renew, trouble)
        elif not request.reply.done():
            request.reply.set_exception(trouble)

    def _lose(self, reason: Exception) -> None:
        """What is not answered may have been carried out or not; it will be sent again."""
        self._connection = None
        self._trouble = reason
        if isinstance(reason, Moved):
            self._aim = self.address.at(reason.place)
        elif isinstance(reason, NotHere):
            self._aim = self._home = self._home.rotated()
        elif not isinstance(reason, NotNow):
            self._aim = self._home
        for request in self._sent:
            request.is_repeated = True
        self._queue.extendleft(reversed(self._sent))
        self._sent.clear()
        self._bytes_sent = 0
        if isinstance(reason, NotNow):
            self._fail(self._given_up())
        self._dial()
        self._on_lost()

    def _dial(self) -> None:
        if self._queue and (self._dialing is None or self._dialing.done()):
            self._dialing = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        """Connect, for as long as somebody wants that."""
        while any(not request.reply.done() for request in self._queue):
            if self._trouble:
                await asyncio.sleep(self._pause * random.uniform(0.5, 1.5))
                self._pause = min(self._pause * 2, _LONGEST_PAUSE)
            aim = self._aim
            try:
                connection, address = await connect(aim, self._greeting)
            except StoreError as refusal:
                self._fail(list(self._queue), str(refusal), type(refusal))
            except (OSError, TimeoutError, UnicodeError, NotNow) as error:
                self._trouble = error
                if self._aim is aim:
                    self._aim = self._home = self._home.rotated()
            else:
                if self._aim is not aim:
                    connection.abort(ConnectionError("meanwhile, it is wanted elsewhere"))
                    continue
                self._trouble = None
                self._connection, self.address, self._heard = connection, address, self._loop.time()
                connection.on_replies, connection.on_lost = self._take, self._lose
                self._on_connect()
                self._flush()
                return

    def _look_after(self) -> None:
        """Give up on what takes too long, while anything is under way."""
        if self._connection is None:
            self._fail(self._given_up())
        elif self._sent and max(self._heard, self._sent[0].since) < self._loop.time() - _PATIENCE_SECONDS:
            self.renew(TimeoutError("it does not answer"))
        self._look = self._loop.call_later(_LOOK_SECONDS, self._look_after) if self._sent or self._queue else None

    def _given_up(self) -> list[Request]:
        return [request for request in self._queue if request.since < self._loop.time() - _PATIENCE_SECONDS]

    def _fail(self, requests: list[Request], message: str = "", kind: type[StoreError] = StoreUnavailable) -> None:
        why = str(self._trouble) or type(self._trouble).__name__
        message = message or (
            f"{self._home} has not answered for {_PATIENCE_SECONDS:g} seconds ({why});"
            " see that it runs and can be reached from here, then try again."
        )
        for request in requests:
            if not request.reply.done():
                request.reply.set_exception(kind(message))
        self._queue = deque(request for request in self._queue if not request.reply.done())
