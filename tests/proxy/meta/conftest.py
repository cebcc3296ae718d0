"""A server or two, a proxy in front of one, and a client of the meta tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.proxy.meta.talks import Meta, proxying
from tests.proxy.meta.upstreams import Upstream, upstream
from tests.server.conftest import no_settings_from_outside
from tests.v2025.wire import Place

__all__ = ["no_settings_from_outside"]


@pytest.fixture
async def one() -> AsyncGenerator[Upstream]:
    async with upstream("one") as server:
        yield server


@pytest.fixture
async def two() -> AsyncGenerator[Upstream]:
    async with upstream("two") as server:
        yield server


@pytest.fixture
async def place(one: Upstream) -> AsyncGenerator[Place]:
    """A proxy in front of one server."""
    async with proxying([one]) as place:
        yield place


@pytest.fixture
async def meta(place: Place) -> Meta:
    return Meta(await place.memory())
