"""Shared by all tests: asyncio it is, and every store there is."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from coatcheck import new_key, open_store
from coatcheck.store import Store

STORES = ("memory", "sqlite", "sealed")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    """Every store in turn, empty."""
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/tasks.db"
    async with open_store(url, key=new_key() if request.param == "sealed" else None) as opened:
        yield opened
