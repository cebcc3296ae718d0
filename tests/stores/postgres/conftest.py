"""Shared by the tests of the PostgreSQL store: places to keep tasks, and what may stand before them."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from coatcheck.stores.postgres import ear, watch
from tests.databases.fixtures import new_url, the_postgres
from tests.databases.postgres import Postgres
from tests.stores.redis.proxy import Proxy


@pytest.fixture
def url(tmp_path: Path) -> str:
    return new_url("postgres", tmp_path)


@pytest.fixture
async def proxy() -> AsyncGenerator[Proxy]:
    async with Proxy(the_postgres().process.port) as opened:
        yield opened


@pytest.fixture(scope="module")
def own_server() -> Generator[Postgres]:
    """One that may be killed and started again."""
    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def _only_told(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """Nobody looks on their own: who is not told of a change does not hear of it."""
    monkeypatch.setattr(watch, "_SAFETY_SECONDS", 3600.0)
    monkeypatch.setattr(ear, "_TEST_SECONDS", 60.0)
