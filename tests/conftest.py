"""Shared by all tests: asyncio it is, every store there is, and ears for what is logged."""

import logging
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from coatcheck import new_key, open_store
from coatcheck.store import Store
from tests.databases.fixtures import new_url

STORES = ("memory", "sqlite", "redis", "postgres")
TWINS = ("valkey",)
"""Other servers that a store can be kept in: they pass the contract, too."""
SEALED = ("sqlite-sealed", "redis-sealed", "postgres-sealed")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _heard() -> None:  # pyright: ignore[reportUnusedFunction]
    """What is logged is heard, however loud other tests, and the servers in them, have left the logs."""
    logging.disable(logging.NOTSET)
    logging.getLogger().setLevel(logging.WARNING)
    for name in ("coatcheck", "mcp"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    """Every store in turn, empty."""
    kind, _, is_sealed = request.param.partition("-")
    async with open_store(new_url(kind, tmp_path), key=new_key() if is_sealed else None) as opened:
        yield opened
