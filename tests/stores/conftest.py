"""Shared by the tests of stores on a database server, by its kind: an empty store, and what may stand before it."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.databases.fixtures import new_url
from tests.stores.postgres.insider import PostgresInsider
from tests.stores.redis.insider import RedisInsider
from tests.stores.served.helpers import port_of
from tests.stores.served.insider import Insider
from tests.stores.served.proxy import Proxy


@pytest.fixture
def url(kind_of_store: str, tmp_path: Path) -> str:
    return new_url(kind_of_store, tmp_path)


@pytest.fixture
async def proxy(url: str) -> AsyncGenerator[Proxy]:
    async with Proxy(port_of(url)) as opened:
        yield opened


@pytest.fixture
def insider(kind_of_store: str, url: str) -> Insider:
    return PostgresInsider(url) if kind_of_store == "postgres" else RedisInsider(url)


@pytest.fixture
def _only_told(insider: Insider, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """Nobody looks on their own: who is not told of a change does not hear of it."""
    insider.let_nobody_look(monkeypatch)
