"""The servers and the proxies that tests share, and what one test has for itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.serving import ROOT
from tests.client_faults.gate import Gate, gatekeeping
from tests.interop import venvs
from tests.interop.programs import OLD_SDK
from tests.processes import free_port, running
from tests.proxy.bridge.processes import PATIENT, Server, proxy, upstream

_ON_SDK_V1 = Path(__file__).parent / "programs" / "on_sdk_v1.py"


@pytest.fixture(scope="session")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, Any]]:
    """Servers of every kind that live on, as they stand in `mcpServers`. One is there twice, in the older words too."""
    folder = tmp_path_factory.mktemp("steady")
    servers = [upstream(folder, "plain"), upstream(folder, "older"), upstream(folder, "newer")]
    with ExitStack() as stack:
        for server in servers:
            stack.enter_context(server)
        entries = _entries(*servers)
        entries["talkative"] = {"url": servers[0].url, "protocol": "2025-11-25"}
        entries["sdk_v1"] = {"url": stack.enter_context(_on_sdk_v1())}
        yield entries


@pytest.fixture(scope="session")
def hasty(steady: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The URL of a proxy that makes tasks of calls almost at once."""
    with proxy(tmp_path_factory.mktemp("hasty"), steady) as gateway:
        yield gateway.url


@pytest.fixture(scope="session")
def patient(steady: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The URL of a proxy that makes tasks only of calls that ask something, or of which a client wants it."""
    with proxy(tmp_path_factory.mktemp("patient"), steady, PATIENT) as gateway:
        yield gateway.url


@dataclass
class Mortals:
    """Servers with and without tasks, and proxies in front of them: all may be killed and come back."""

    folder: Path
    plain: Server
    older: Server
    bound: Server
    newer: Server
    hasty: Server
    patient: Server

    @property
    def all(self) -> list[Server]:
        return [self.plain, self.older, self.bound, self.newer, self.hasty, self.patient]

    @property
    def entries(self) -> dict[str, Any]:
        return _entries(self.plain, self.older, self.bound, self.newer)

    def server(self, name: str) -> Server:
        return next(server for server in self.all if server.name == name)


@pytest.fixture(scope="session")
def _mortals(tmp_path_factory: pytest.TempPathFactory) -> Generator[Mortals]:
    folder = tmp_path_factory.mktemp("mortal")
    plain, older, newer = upstream(folder, "plain"), upstream(folder, "older"), upstream(folder, "newer")
    bound = upstream(folder, "bound")
    entries = _entries(plain, older, bound, newer)
    hasty = proxy(tmp_path_factory.mktemp("hasty"), entries)
    patient = proxy(tmp_path_factory.mktemp("patient"), entries, PATIENT)
    mortals = Mortals(folder, plain, older, bound, newer, hasty, patient)
    with ExitStack() as stack:
        for server in mortals.all:
            stack.enter_context(server)
        yield mortals


@pytest.fixture
def mortals(_mortals: Mortals) -> Mortals:
    for server in _mortals.all:
        if not server.is_there:  # a test before this one has failed in between
            server.start()
    return _mortals


def _entries(*servers: Server) -> dict[str, Any]:
    return {server.name: {"url": server.url} for server in servers}


@dataclass
class Scene:
    """What one test has for itself: a gate for its calls, and a file in which they leave traces."""

    gate: Gate
    log: Path

    @property
    def arguments(self) -> dict[str, Any]:
        return {"log": str(self.log), "gate": self.gate.port}

    def traces(self, word: str) -> list[int]:
        """Return the processes that left a word, in their order."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [int(pid) for said, pid in map(str.split, lines) if said == word]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene]:
    async with gatekeeping() as gate:
        yield Scene(gate, tmp_path / "log.txt")
    for _ in range(3):  # turns of the loop, after which what was closed is gone
        await asyncio.sleep(0)


@contextmanager
def _on_sdk_v1() -> Generator[str]:
    port = free_port()
    command = [str(venvs.python("mcp", OLD_SDK)), str(_ON_SDK_V1), str(port)]
    with running(command, port, {"PYTHONPATH": str(ROOT)}):
        yield f"http://127.0.0.1:{port}/mcp"
