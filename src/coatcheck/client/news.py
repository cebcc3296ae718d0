"""What is heard of tasks: each is waited for by name, and told of by whoever hears something first."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from coatcheck.dialects.seen import Snapshot

_MOST_LOOKS = 16


class Feed:
    """What one who follows a task has yet to hear: the last word on it."""

    __slots__ = ("_unheard", "_waker", "task_id")

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self._unheard: Snapshot | None = None
        self._waker: asyncio.Future[None] | None = None

    def tell(self, snapshot: Snapshot) -> None:
        self._unheard = snapshot
        self.wake()

    def wake(self) -> None:
        """Let whoever waits look for itself."""
        if self._waker and not self._waker.done():
            self._waker.set_result(None)

    async def wait(self, timeout: float) -> Snapshot | None:
        """Return what is heard within `timeout` seconds; None: nothing, so look."""
        if self._unheard is None:
            self._waker = asyncio.get_running_loop().create_future()
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._waker
        heard, self._unheard = self._unheard, None
        return heard


class News:
    """Who follows which task."""

    def __init__(self) -> None:
        self._feeds: dict[str, list[Feed]] = {}
        self.looks = asyncio.Semaphore(_MOST_LOOKS)
        """So that a thousand tasks are looked at one after the other."""

    @property
    def followed(self) -> list[str]:
        return list(self._feeds)

    def is_followed(self, task_id: str) -> bool:
        return task_id in self._feeds

    def follow(self, task_id: str) -> Feed:
        feed = Feed(task_id)
        self._feeds.setdefault(task_id, []).append(feed)
        return feed

    def leave(self, feed: Feed) -> None:
        feeds = self._feeds[feed.task_id]
        feeds.remove(feed)
        if not feeds:
            del self._feeds[feed.task_id]

    def tell(self, snapshot: Snapshot) -> None:
        """Pass on what was heard, if anyone follows it."""
        for feed in self._feeds.get(snapshot.id, ()):
            feed.tell(snapshot)

    def wake(self, task_id: str) -> None:
        for feed in self._feeds.get(task_id, ()):
            feed.wake()
