"""A server without tools that keeps its tasks in memory, and the mark for requirements."""

from __future__ import annotations

import logging
from collections.abc import Generator
from importlib import import_module

import pytest

from coatcheck.server import TaskServer
from tests.requirements.marks import pytest_configure

__all__ = ["pytest_configure"]

# Its pytest plugin imports it in the middle of a report, which CPython 3.11 sometimes does not survive (gh-106905).
import_module("hypothesis")


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COATCHECK_STORE", "COATCHECK_CONCURRENCY", "COATCHECK_KEY"):
        monkeypatch.delenv(name, raising=False)


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
def server() -> TaskServer:
    return TaskServer("test", version="1", store="memory://")
