"""Servers to put load on, each a process of its own that ends with its block."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from benchmarks import rival
from benchmarks.children import ROOT, command
from benchmarks.line import Settings
from benchmarks.load.meter import Metrics
from benchmarks.load.session import Address
from benchmarks.load.starting import answered
from benchmarks.timing import Spent

RIVAL = rival.NAME
_STOP_SECONDS = 60


class Program(NamedTuple):
    """A command, where it will listen, and where what it says is kept."""

    command: Sequence[str]
    address: Address
    log: Path


class Served(NamedTuple):
    address: Address
    pids: Sequence[int]


def coatcheck(settings: Settings, name: str = "tasks") -> Program:
    """On a SQLite file with `synchronous = full`, as it is unless one says otherwise."""
    store = f"sqlite:///{settings.folder / name}.db"
    return served_by("coatcheck_server", store, settings.folder / "coatcheck.log")


def served_by(name: str, store: str, log: Path) -> Program:
    """One of the servers of coatcheck, on any store."""
    port, target = _free_port(), f"benchmarks.servers.{name}:server"
    arguments = ("serve", target, "--http", f"127.0.0.1:{port}", "--store", store, "--log-level", "warning")
    return Program(command("coatcheck", *arguments), _address(port), log)


def fastmcp(settings: Settings) -> Program:
    port, program = _free_port(), "benchmarks/servers/fastmcp_server.py"
    return Program([str(rival.python()), program, str(port)], _address(port), settings.folder / "fastmcp.log")


def bare(settings: Settings) -> Program:
    port = _free_port()
    return Program(command("benchmarks.servers.bare_server", port), _address(port), settings.folder / "bare.log")


@asynccontextmanager
async def serving(program: Program) -> AsyncGenerator[Served]:
    with program.log.open("ab") as log, _started(program, log) as process:
        try:
            await answered(program.address, process.poll)
            yield Served(program.address, [process.pid])
        except BaseException:
            print(program.log.read_text(), file=sys.stderr)
            raise
        finally:
            _stop(process)


def spent_of(found: Metrics) -> Spent:
    """Return a measurement of the load generator; the processor time is the server's."""
    return Spent(found["operations"], found["seconds"], found["cpu_seconds"])


def require(found: object, expected: object, what: str) -> None:
    """Make sure that a server did what it was asked to.

    Raises:
        RuntimeError: It did not, and its figures are of no use.
    """
    if found != expected:
        raise RuntimeError(f"{what}: {found}, not {expected}")


def _started(program: Program, log: BinaryIO) -> subprocess.Popen[bytes]:
    return subprocess.Popen(program.command, cwd=ROOT, stdout=log, stderr=log)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _address(port: int) -> Address:
    return Address("127.0.0.1", port, "/mcp")
