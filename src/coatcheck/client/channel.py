"""What tasks need of a connection, whoever holds it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from coatcheck.client.wire import Json

T = TypeVar("T")
C = TypeVar("C", bound="Channel")


class Channel(Protocol):
    """One connection to a server."""

    @property
    def version(self) -> str: ...

    @property
    def is_modern(self) -> bool: ...

    @property
    def has_tasks(self) -> bool: ...

    @property
    def takes_keys(self) -> bool: ...

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        name: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Json: ...

    async def put(self, method: str, params: Json, request_id: str | int, about: str | None = None) -> Json: ...

    def can_answer(self, method: str) -> bool: ...


async def itself(channel: C) -> C:
    """Return the connection itself, for those who want nothing of it yet."""
    return channel


class Line(Protocol):
    """Always the connection that is there just now."""

    losses: int

    @property
    def connection(self) -> Channel | None: ...

    async def open(self) -> Channel: ...

    async def run(self, operation: Callable[[Channel], Awaitable[T]], *, is_repeatable: bool = True) -> T: ...
