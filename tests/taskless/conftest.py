"""The versions of clients without tasks, and what tests of the protocol share."""

from __future__ import annotations

import pytest

from tests.requirements.marks import pytest_configure
from tests.v2025.conftest import no_settings_from_outside, quiet, transport
from tests.v2025.wire import NEW, OLD, VERSION

__all__ = ["no_settings_from_outside", "pytest_configure", "quiet", "transport"]


@pytest.fixture(params=[OLD, VERSION, NEW])
def version(request: pytest.FixtureRequest) -> str:
    return request.param
