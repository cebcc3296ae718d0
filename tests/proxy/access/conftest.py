"""A server or two behind the proxy, and either generation in front of it."""

from __future__ import annotations

import pytest

from tests.proxy.access.people import GENERATIONS
from tests.proxy.meta.conftest import one, two
from tests.requirements.marks import pytest_configure
from tests.server.conftest import no_settings_from_outside

__all__ = ["no_settings_from_outside", "one", "pytest_configure", "two"]


@pytest.fixture(params=GENERATIONS, ids=["client-2025", "client-2026"])
def version(request: pytest.FixtureRequest) -> str:
    return request.param
