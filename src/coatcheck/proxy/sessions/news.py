"""Where clients of 2026-07-28 listen: each hears what the connections of its own sessions tell, and nobody else's."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from mcp.server.subscriptions import InMemorySubscriptionBus, ServerEvent

_listener: ContextVar[str | None] = ContextVar("coatcheck_listener", default=None)


class News:
    """The SDK's bus of events, with a bus for each owner in it; callers without one share theirs."""

    def __init__(self) -> None:
        self._everyone = InMemorySubscriptionBus()
        self._buses: dict[str | None, InMemorySubscriptionBus] = {}
        self._streams: dict[str | None, int] = {}

    async def publish(self, event: ServerEvent) -> None:
        """Tell everyone, of something that is the proxy's own."""
        await self._everyone.publish(event)

    async def tell(self, owner: str | None, event: ServerEvent) -> None:
        """Tell the streams of one owner."""
        if bus := self._buses.get(owner):
            await bus.publish(event)

    @contextmanager
    def listening(self, owner: str | None) -> Generator[None]:
        """Have what subscribes meanwhile be a stream of this owner."""
        before = _listener.set(owner)
        try:
            yield
        finally:
            _listener.reset(before)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        owner = _listener.get()
        bus = self._buses.setdefault(owner, InMemorySubscriptionBus())
        self._streams[owner] = self._streams.get(owner, 0) + 1
        leaving = [self._everyone.subscribe(listener), bus.subscribe(listener)]

        def unsubscribe() -> None:
            if not leaving:
                return
            for leave in leaving:
                leave()
            leaving.clear()
            self._streams[owner] -= 1
            if self._streams[owner] == 0:
                del self._streams[owner], self._buses[owner]

        return unsubscribe
