"""The servers and the proxy that all tests share, and what one test has for itself."""

from __future__ import annotations

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
from tests.interop_servers.processes import free_port, running
from tests.proxy.bridge.processes import Server, proxy, upstream

_PROGRAM = Path(__file__).parent / "programs" / "on_sdk_v1.py"


@pytest.fixture(scope="session")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The URL of a proxy in front of servers of every kind; none of them is killed."""
    folder = tmp_path_factory.mktemp("bridge")
    servers = [upstream(folder, "plain"), upstream(folder, "older"), upstream(folder, "newer")]
    with ExitStack() as stack:
        for server in servers:
            _start(server, stack)
        entries: dict[str, Any] = {server.name: {"url": server.url} for server in servers}
        entries["talkative"] = {"url": servers[0].url, "protocol": "2025-11-25"}
        entries["sdk_v1"] = {"url": stack.enter_context(_on_sdk_v1())}
        gateway = proxy(folder, entries)
        _start(gateway, stack)
        yield gateway.url


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


def _start(server: Server, stack: ExitStack) -> None:
    server.start()
    stack.callback(server.kill)


@contextmanager
def _on_sdk_v1() -> Generator[str]:
    port = free_port()
    command = [str(venvs.python("mcp", OLD_SDK)), str(_PROGRAM), str(port)]
    with running(command, port, {"PYTHONPATH": str(ROOT)}):
        yield f"http://127.0.0.1:{port}/mcp"
