"""Servers that are there for all tests of a process, and a stage for each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.client_faults.gate import Gate, gatekeeping
from tests.client_faults.host import Host
from tests.client_faults.program import Mode
from tests.client_faults.proxy import proxying
from tests.client_faults.stage import Served, Stage


@pytest.fixture(scope="session")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Generator[Host]:
    """A server that lives on. Its tasks belong to sessions, where there are any."""
    host = Host("bound", tmp_path_factory.mktemp("steady"))
    host.start()
    yield host
    host.end()


@pytest.fixture(scope="session")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Generator[Host]:
    """A server that is killed and started again. Its tasks belong to whoever has their id."""
    host = Host("unbound", tmp_path_factory.mktemp("mortal"))
    host.start()
    yield host
    host.end()


@pytest.fixture
async def gate() -> AsyncGenerator[Gate]:
    async with gatekeeping() as gate:
        yield gate


@pytest.fixture
def mode(request: pytest.FixtureRequest) -> Mode:
    """The generation that the client speaks; tests give it as a parameter."""
    return request.param


@pytest.fixture
async def stage(gate: Gate, tmp_path: Path, mode: Mode) -> AsyncGenerator[Stage]:
    """A stage without a server: clients bring their own."""
    stage = Stage(gate, tmp_path, mode)
    yield stage
    await stage.clean_up()


@pytest.fixture
async def calm(steady: Host, gate: Gate, tmp_path: Path, mode: Mode) -> AsyncGenerator[Served]:
    """A stage whose server lives on."""
    async with _served(steady, gate, tmp_path, mode) as served:
        yield served


@pytest.fixture
async def deadly(mortal: Host, gate: Gate, tmp_path: Path, mode: Mode) -> AsyncGenerator[Served]:
    """A stage whose server may be killed."""
    async with _served(mortal, gate, tmp_path, mode) as served:
        yield served


@asynccontextmanager
async def _served(host: Host, gate: Gate, folder: Path, mode: Mode) -> AsyncGenerator[Served]:
    if not host.is_there:  # a test before this one has failed in between
        host.start()
    async with proxying(host.port) as proxy:
        served = Served(host, proxy, gate, folder, mode)
        yield served
        await served.clean_up()
