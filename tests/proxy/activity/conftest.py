"""What is logged here is heard, whatever other tests have done to the root logger."""

from __future__ import annotations

import logging

import pytest


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:  # pyright: ignore[reportUnusedFunction]
    caplog.set_level(logging.WARNING, "coatcheck")
