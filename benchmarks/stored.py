"""Servers, and workers without one, whose tasks are in a database that others use too."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.conformance.once import BUILD, made_once
from tests.interop import fastmcp_venv
from tests.processes import free_port

from benchmarks import rival
from benchmarks.children import ROOT, command
from benchmarks.line import Settings
from benchmarks.load.session import Address
from benchmarks.serving import Program

RIVAL = f"FastMCP {fastmcp_venv.VERSION}, on Redis"
_HIREDIS = "hiredis==3.5.0"
"""The version we are measured with ourselves."""
_INSTALLING_SECONDS, _STOP_SECONDS = 300, 60


def coatcheck(settings: Settings, target: str, store: str, *options: str) -> Program:
    """A server as `coatcheck serve` runs it."""
    port = free_port()
    where = ("--http", f"127.0.0.1:{port}", "--store", store, "--log-level", "warning")
    log = settings.folder / f"coatcheck-{port}.log"
    return Program(command("coatcheck", "serve", target, *where, *options), _address(port), log)


@contextmanager
def worker(settings: Settings, target: str, store: str, slots: int) -> Generator[int]:
    """A process that runs tasks and serves nobody, for as long as this lasts; yields its id."""
    log = settings.folder / f"worker-{free_port()}.log"
    options = ("--store", store, "--concurrency", slots, "--log-level", "warning")
    with log.open("ab") as said:
        process = subprocess.Popen(command("coatcheck", "worker", target, *options), cwd=ROOT, stdout=said, stderr=said)
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def fastmcp(settings: Settings, redis_url: str) -> Program:
    port, program = free_port(), "benchmarks/servers/fastmcp_redis_server.py"
    started = ["env", f"PYTHONPATH={_hiredis()}", str(rival.python()), program, str(port), redis_url]
    return Program(started, _address(port), settings.folder / f"fastmcp-{port}.log")


def _hiredis() -> Path:
    """Return a folder that has it and nothing else: FastMCP does not ask for it, but is faster with it."""

    def make(folder: Path) -> None:
        pip = (rival.python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
        subprocess.run((*pip, "--target", folder, _HIREDIS), check=True, timeout=_INSTALLING_SECONDS)

    return made_once(BUILD / _HIREDIS.replace("==", "-"), Path(__file__), make)


def _address(port: int) -> Address:
    return Address("127.0.0.1", port, "/mcp")
