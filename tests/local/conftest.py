"""A server without tools that keeps its tasks in memory, and the mark for requirements."""

from __future__ import annotations

from importlib import import_module

import pytest

from coatcheck.server import TaskServer
from tests.requirements.marks import pytest_configure
from tests.server.conftest import no_settings_from_outside
from tests.v2025.conftest import quiet

__all__ = ["no_settings_from_outside", "pytest_configure", "quiet"]

# Its pytest plugin imports it in the middle of a report, which CPython 3.11 sometimes does not survive (gh-106905).
import_module("hypothesis")


@pytest.fixture
def server() -> TaskServer:
    return TaskServer("test", version="1", store="memory://")
