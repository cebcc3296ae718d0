"""Servers to start, and clients for them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.cli.serving import Serving


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncGenerator[Serving]:
    serving = Serving(tmp_path)
    yield serving
    await serving.clean_up()
