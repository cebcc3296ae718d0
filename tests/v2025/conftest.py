"""A fresh server for every test, the transports to reach it on, and the mark for requirements."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Generator

import pytest

from tests.requirements.marks import pytest_configure
from tests.server.conftest import no_settings_from_outside
from tests.v2025.bench import Bench
from tests.v2025.wire import Talk, Transport, served

__all__ = ["no_settings_from_outside", "pytest_configure"]


@pytest.fixture(autouse=True)
def quiet() -> Generator[None]:
    """Tools that raise are meant to; the SDK draws their tracebacks, which takes longer than a test."""
    loggers = [logging.getLogger(name) for name in ("mcp", "coatcheck")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture(params=["memory", "sse", "json"])
def transport(request: pytest.FixtureRequest) -> Transport:
    return request.param


@pytest.fixture
async def caller(bench: Bench, transport: Transport) -> AsyncGenerator[Talk]:
    """A client of 2025-11-25 that can be asked everything, on every transport."""
    async with served(bench.server, transport) as place:
        yield await place.connect(transport)


@pytest.fixture
async def memory(bench: Bench) -> AsyncGenerator[Talk]:
    """The same in memory, where the transport makes no difference."""
    async with served(bench.server) as place:
        yield await place.memory()
