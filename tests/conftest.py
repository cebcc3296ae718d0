"""Shared by all tests: asyncio it is, and every store there is."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from coatcheck import new_key, open_store
from coatcheck.store import Store
from tests.databases.fixtures import new_url

STORES = ("memory", "sqlite", "redis", "postgres")
SEALED = ("sqlite-sealed", "redis-sealed", "postgres-sealed")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    """Every store in turn, empty."""
    kind, _, is_sealed = request.param.partition("-")
    async with open_store(new_url(kind, tmp_path), key=new_key() if is_sealed else None) as opened:
        yield opened
