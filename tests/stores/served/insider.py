"""What tests know of a server without the store's help, and do to what is kept there as no store would."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import pytest

from tests.stores.served.proxy import Proxy


class Insider(Protocol):
    """Of one store's place on a server; each kind of server has its own."""

    def let_nobody_look(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have stores hear of changes only if they are told."""
        ...

    def have_patience(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        """Have stores wait so long for a server that is away."""
        ...

    def complaint(self, port: int) -> str:
        """Return a pattern of what is said when nobody answers at this port."""
        ...

    async def until_watched(self, task_id: str) -> None:
        """Wait until a change of this task would be told to a store."""
        ...

    async def until_idle(self, count: int) -> None:
        """Wait until work would be told to so many stores, and nobody looks for some any more."""
        ...

    async def expect_idle(self, count: int) -> None:
        """Make sure that work would be told to so many stores, now that some have been told."""
        ...

    async def spoil(self, task_id: str, body: str) -> None:
        """Write something else where the task is kept."""
        ...

    async def count_entries(self) -> int:
        """Count what is kept of journals, also of those whose task is gone."""
        ...

    def unanswered(self, proxy: Proxy, write: Awaitable[object]) -> AbstractAsyncContextManager[asyncio.Future[object]]:
        """Have a write arrive at the server, but not be answered before this ends. It is carried out soon."""
        ...
