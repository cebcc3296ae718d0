"""Servers to start, and clients for them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from tests.cli.caller import Caller, serving
from tests.cli.serving import Serving


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncGenerator[Serving]:
    serving = Serving(tmp_path)
    yield serving
    await serving.clean_up()


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """A server with the tools of `tests/terminal/app.py`, shared by all tests of a process."""
    with serving(tmp_path_factory.mktemp("served")) as where:
        yield where


@pytest.fixture
def coatcheck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Caller:
    return Caller(tmp_path, monkeypatch, capfd)
