"""Tasks in Redis or Valkey: shared by any number of processes on any number of hosts."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Generator, Hashable, Sequence
from contextlib import AsyncExitStack, contextmanager
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self

from coatcheck.errors import InvalidArgument, QuotaExceeded
from coatcheck.store import EVERYONE, Everyone, Query
from coatcheck.stores.codec import Codec
from coatcheck.stores.columns import microseconds
from coatcheck.stores.readable import Readable
from coatcheck.stores.redis import opening, scripts
from coatcheck.stores.redis.address import parse
from coatcheck.stores.redis.connection import Word
from coatcheck.stores.redis.ears import Ears, ignore
from coatcheck.stores.redis.idle import Idle, Seat
from coatcheck.stores.redis.link import Link, Request
from coatcheck.stores.redis.rows import Rows, key_of, owner_of, raw, scope_of
from coatcheck.stores.redis.scripts import Script
from coatcheck.stores.waiters import Alarm, Waiters
from coatcheck.task import Entry, Task

_SAFETY_SECONDS = 30.0
_WORK_SAFETY_SECONDS = 5.0
"""Should a hint ever be lost, nobody sleeps longer than this on what has been written."""

_UNCHANGED = object()


class RedisStore:
    """Each operation is one script, run by Redis as a whole; those of one turn of the loop leave together."""

    def __init__(self, url: str, codec: Codec | None = None) -> None:
        self._address, self._codec = parse(url), codec or Codec()
        self._prefix = b"{%b}:" % raw(self._address.prefix)
        self._rows_prefix, self._nothing = self._prefix + b"t:", self._prefix + b"none"
        self._name = secrets.token_urlsafe(9)
        self._rows, self._readable = Rows(self._codec, self._name), Readable(self._codec)
        self._waiters, self._idle = Waiters(), Idle()
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._link = Link(self._address, scripts.LOADING, on_connect=self._on_connect)
            channel = b"%bc:%b" % (self._prefix, self._name.encode())
            self._ears = Ears(self._address, channel, on_message=self._on_message, on_deaf=self._waiters.wake_all)
            stack.push_async_callback(self._link.close)
            info = await opening.check_server(self._link)
            kept = await self._run(scripts.OPEN, *opening.words(self._codec)).reply
            opening.check_kept(kept, self._link, self._address.prefix)
            stack.push_async_callback(self._ears.close)
            stack.callback(self._waiters.wake_all)
            # Not if it is closed at once: whoever only sees whether it can be opened will open it again, to use it.
            telling = asyncio.get_running_loop().call_soon(opening.tell, info, self._link.address)
            stack.callback(telling.cancel)
            self._open = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    # Writing

    async def insert(self, task: Task, *, quota: int | None = None) -> Task:
        words = self._rows.words(task)
        request = self._run(scripts.INSERT, *words, "" if quota is None else quota, task_id=task.id)
        reply = await request.reply
        if reply == 1:
            return task
        if reply == 0:
            raise QuotaExceeded(quota or 0, task.owner)
        found_by, kept_id, scope, body = reply
        kept = self._codec.load(body, kept_id.decode("utf-8", "surrogatepass"), owner_of(scope))
        if request.is_repeated and _is_the_same(kept, task):
            return task
        if found_by == b"key":
            return kept
        raise InvalidArgument(f"Task {task.id} exists already.")

    async def replace(self, task: Task, entries: Sequence[Entry] = ()) -> bool:
        words = self._rows.words(task, entries)
        request = self._run(scripts.REPLACE, *words, task_id=task.id, on_reply=self._waker(task.id))
        return await request.reply == 1

    async def delete(self, task: Task) -> bool:
        words = (raw(task.id), task.version, scope_of(task.owner), raw(task.call.full_name), key_of(task))
        request = self._run(scripts.DELETE, *words, task_id=task.id, on_reply=self._waker(task.id))
        reply = await request.reply
        return reply == 1 or (reply is None and request.is_repeated)

    # Reading

    async def get(
        self,
        task_id: str,
        *,
        owner: str | Everyone | None = EVERYONE,
        alive_at: datetime | None = None,
        newer_than: int = 0,
        timeout: float = 0,
    ) -> Task | None:
        scope = b"" if owner is EVERYONE else scope_of(owner)
        # One key is named, and no other is touched: wherever that is, it is read.
        words = 1, self._key(task_id), scope, "" if alive_at is None else microseconds(alive_at)
        kept: Any = _UNCHANGED
        if timeout > 0:
            kept = await self._news(task_id, words, newer_than, timeout)
        if kept is _UNCHANGED:
            is_plain = not scope and alive_at is None
            command = ("HMGET", words[1], "o", "b") if is_plain else ("EVALSHA", scripts.GET.digest, *words)
            kept = await self._link.send(*command).reply
        if kept and not scope:
            scope, kept = kept
        return None if kept is None else self._codec.load(kept, task_id, owner_of(scope))

    async def _news(self, task_id: str, words: Sequence[Word], newer_than: int, timeout: float) -> Any:
        """Wait until there is something newer, or nothing at all; return what the script does."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        command = ("EVALSHA", scripts.WATCH.digest, *words, newer_than, self._name)
        while (left := deadline - loop.time()) > 0:
            await self._ears.open(left)
            with self._armed(task_id, min(deadline - loop.time(), _SAFETY_SECONDS)) as alarm:
                reply = await self._link.send(*command).reply
                if reply != 0:
                    return reply
                await alarm
        return _UNCHANGED

    async def list(self, query: Query) -> Sequence[Task]:
        at, after = (microseconds(query.after[0]), raw(query.after[1])) if query.after else ("", "")
        scope = b"" if query.owner is EVERYONE else scope_of(query.owner)
        index, only = (b"held", scope) if query.is_held else (b"o:" + scope if scope else b"all", b"")
        return await self._readable.first(
            query.limit, lambda limit: self._tasks(scripts.LIST, index, limit, at, after, only)
        )

    async def journal(self, task_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        scope, bodies = await self._run(scripts.JOURNAL, raw(task_id), after, limit, task_id=task_id).reply
        return [] if scope is None else self._rows.entries(task_id, scope, after, bodies)

    async def overdue(self, now: datetime, *, limit: int) -> Sequence[Task]:
        return await self._readable.first(limit, lambda limit: self._tasks(scripts.OVERDUE, microseconds(now), limit))

    # Waiting for work

    async def waiting(
        self, tools: Collection[str], *, limit: int, timeout: float, is_for_others: bool = False
    ) -> Sequence[Task]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        seat = Seat(() if is_for_others else tools)
        try:
            while True:
                if (left := max(deadline - loop.time(), 0)) > 0:
                    await self._ears.open(left)
                    self._idle.sit(seat)
                called = len(seat.calls)
                with self._armed(seat, min(deadline - loop.time(), _WORK_SAFETY_SECONDS)) as alarm:
                    offers = partial(self._offers, tools, is_for_others, seat if left else None)
                    found = await self._readable.first(limit, offers)
                    del seat.calls[:called]
                    if found or left == 0:
                        return found
                    await alarm
        finally:
            self._idle.leave(seat)
            for tool in seat.calls:  # there is work that was not looked at here: it is for somebody else
                self._call(tool)

    async def _offers(
        self, tools: Collection[str], is_for_others: bool, seat: Seat | None, limit: int
    ) -> Sequence[Task]:
        """Read tasks that need a worker; if there are none, have this store told of the next for `seat`."""
        if seat is None:
            registers = "never"
        elif self._idle.has_others(seat) or self._readable.has_passed_over:
            registers = "always"
        else:
            registers = "if none"
        return await self._tasks(scripts.WAITING, limit, registers, int(is_for_others), *map(raw, tools))

    def _call(self, tool: str) -> None:
        """Have one look for work: here, or wherever somebody waits for it."""
        if seat := self._idle.call(tool):
            self._waiters.wake([seat])
        elif self._link.is_open:
            self._run(scripts.PASS_ON, raw(tool)).reply.add_done_callback(ignore)

    def _on_message(self, message: bytes) -> None:
        name = message[1:].decode("utf-8", "surrogatepass")
        if message.startswith(b"w"):
            self._call(name)
        else:
            self._waiters.wake([name])

    def _on_connect(self) -> None:
        self._ears.follow(self._link.address)

    # The rest

    def _key(self, task_id: str) -> bytes:
        return self._rows_prefix + raw(task_id)

    def _run(
        self,
        script: Script,
        *words: Word,
        task_id: str | None = None,
        on_reply: Callable[[Any], None] | None = None,
    ) -> Request:
        key = b"%bschema" % self._prefix if task_id is None else self._key(task_id)
        # A node that is moving these keys elsewhere, one by one, refuses what names one it does not have. So this names
        # one that nobody has: else the script would run, and break off at the first key that is there no more.
        command = ("EVALSHA", script.digest, 2, key, self._nothing, self._prefix, self._name, *words)
        return self._link.send(*command, on_reply=on_reply)

    async def _tasks(self, script: Script, *words: Word) -> Sequence[Task]:
        rows = await self._run(script, *words).reply
        read = ((body, task_id.decode("utf-8", "surrogatepass"), owner_of(scope)) for task_id, scope, body in rows)
        return [task for row in read if (task := self._readable.load(*row))]

    def _waker(self, task_id: str) -> Callable[[Any], None]:
        """Return what wakes those who wait here, even if whoever made the change has gone away."""
        return lambda reply: self._waiters.wake([task_id]) if reply == 1 else None

    @contextmanager
    def _armed(self, key: Hashable, timeout: float) -> Generator[Alarm]:
        alarm = self._waiters.arm(key, timeout)
        try:
            with self._ears.needed():
                yield alarm
        finally:
            self._waiters.disarm(alarm)


def _is_the_same(kept: Task, task: Task) -> bool:
    """Whatever happened to it since, it is the task that was to be kept."""
    return (kept.id, kept.owner, kept.call, kept.created_at) == (task.id, task.owner, task.call, task.created_at)
