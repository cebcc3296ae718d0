"""The servers that run while these tests do, and clients for them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop_servers.clients import Answers, Connect, connecting
from tests.interop_servers.servers import Target, serving


@pytest.fixture(scope="session")
def _running() -> Generator[tuple[ExitStack, dict[str, Target]]]:
    with ExitStack() as stack:
        yield stack, {}


@pytest.fixture
def target(request: pytest.FixtureRequest, _running: tuple[ExitStack, dict[str, Target]]) -> Target:
    """The server that a test names, started when the first asks for it."""
    name: str = request.param
    stack, started = _running
    if name not in started:
        started[name] = stack.enter_context(serving(name))
    return started[name]


@pytest.fixture
def connect(tmp_path: Path) -> Connect:
    return connecting(tmp_path)


@pytest.fixture
def answers() -> Answers:
    return Answers()
