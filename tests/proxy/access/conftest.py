"""A server or two behind the proxy, and either generation in front of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.proxy.access.people import GENERATIONS
from tests.proxy.meta.upstreams import Upstream, upstream
from tests.requirements.marks import pytest_configure
from tests.server.conftest import no_settings_from_outside

__all__ = ["no_settings_from_outside", "pytest_configure"]


@pytest.fixture
async def one() -> AsyncGenerator[Upstream]:
    async with upstream("one") as server:
        yield server


@pytest.fixture
async def two() -> AsyncGenerator[Upstream]:
    async with upstream("two") as server:
        yield server


@pytest.fixture(params=GENERATIONS, ids=["client-2025", "client-2026"])
def version(request: pytest.FixtureRequest) -> str:
    return request.param
