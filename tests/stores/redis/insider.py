"""What tests know of a Redis without the store's help, and do to what is kept there as no store would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager

import pytest

from coatcheck.stores.redis import link, store
from tests.stores.redis.helpers import ask, key
from tests.stores.served.helpers import FOREVER, until
from tests.stores.served.proxy import Proxy


class RedisInsider:
    def __init__(self, url: str) -> None:
        self._url = url

    def let_nobody_look(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(store, "_SAFETY_SECONDS", FOREVER)
        monkeypatch.setattr(store, "_WORK_SAFETY_SECONDS", FOREVER)

    def have_patience(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        monkeypatch.setattr(link, "_PATIENCE_SECONDS", seconds)

    def complaint(self, port: int) -> str:
        return rf"redis://127.0.0.1:{port}/0 has not answered.*; see that"

    async def until_watched(self, task_id: str) -> None:
        await until(lambda: ask(self._url, "HEXISTS", key(self._url, f"t:{task_id}"), "l"))

    async def until_idle(self, count: int) -> None:
        await until(lambda: self._idle() == count)

    async def expect_idle(self, count: int) -> None:
        assert self._idle() == count, "whoever is told is taken off at once"

    async def spoil(self, task_id: str, body: str) -> None:
        ask(self._url, "HSET", key(self._url, f"t:{task_id}"), "b", body)

    async def count_entries(self) -> int:
        return sum(ask(self._url, "LLEN", name) for name in ask(self._url, "KEYS", key(self._url, "j:*")))

    @asynccontextmanager
    async def unanswered(self, proxy: Proxy, write: Awaitable[object]) -> AsyncGenerator[asyncio.Future[object]]:
        cuts, proxy.is_shut = proxy.cuts, True
        proxy.cut_after(down=0)
        writing = asyncio.ensure_future(write)
        await until(lambda: proxy.cuts > cuts)
        yield writing
        proxy.is_shut = False

    def _idle(self) -> int:
        return ask(self._url, "SCARD", key(self._url, "i:slow"))
