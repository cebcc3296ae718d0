"""Processes forked from one that has everything imported: those that import it themselves take a second each."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from coatcheck.cli import main

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["coatcheck.cli.serve", "coatcheck.server", "tests.client_faults.program", "tests.crash.programs"]
)


def call_coatcheck(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Do in this process what `python -m coatcheck` does in a folder."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, str(folder))
    sys.argv = ["coatcheck", *arguments]
    main()


class Forked:
    """A process in a session of its own: it is told lines, and what it says on one of its streams can be read."""

    def __init__(self, process: ForkServerProcess, told: Connection, transport: asyncio.BaseTransport) -> None:
        assert process.pid
        self.pid = process.pid
        self._process, self._told, self._transport = process, told, transport

    def tell(self, line: str) -> None:
        os.write(self._told.fileno(), f"{line}\n".encode())

    def signal(self, number: signal.Signals) -> None:
        if self._process.is_alive():
            os.kill(self.pid, number)

    async def ended(self, within: float) -> int:
        """Wait for the end; return the exit code, or minus the signal that ended it."""
        await asyncio.to_thread(self._process.join, within)
        if (code := self._process.exitcode) is None:
            raise TimeoutError(f"Process {self.pid} has not ended after {within} seconds")
        return code

    async def clean_up(self, within: float) -> None:
        """End the process and whatever it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.signal(signal.SIGKILL)  # which has no session yet if it has only begun
        await self.ended(within)
        self._told.close()
        self._transport.close()


async def fork(function: Callable[..., None], *arguments: Any, stream: int) -> tuple[Forked, asyncio.StreamReader]:
    """Run a function in a process; return what it says on a stream, 1 or 2, as well."""
    reader, writer = CONTEXT.Pipe(duplex=False)
    given, told = CONTEXT.Pipe(duplex=False)
    with writer, given:
        process = CONTEXT.Process(target=_run, args=(given, writer, stream, function, arguments))
        process.start()
    said = asyncio.StreamReader()
    # The file is closed by the transport, and the connection must not close it a second time.
    pipe = os.fdopen(os.dup(reader.fileno()), "rb", buffering=0)
    reader.close()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(said), pipe)
    return Forked(process, told, transport), said


def _run(
    given: Connection, said: Connection, stream: int, function: Callable[..., None], arguments: Sequence[Any]
) -> None:
    os.setsid()
    os.dup2(given.fileno(), 0)
    os.dup2(said.fileno(), stream)
    given.close()
    said.close()
    sys.stdin = open(0, closefd=False)  # noqa: SIM115, as it is read until the process ends
    function(*arguments)


def run_coatcheck(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], within: float
) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself."""
    streams = folder / "stdout.txt", folder / "stderr.txt"
    process = CONTEXT.Process(target=_run_apart, args=(*streams, arguments, folder, environment))
    process.start()
    process.join(within)
    if (code := process.exitcode) is None:
        process.kill()
        raise TimeoutError(f"{arguments} has not ended after {within} seconds")
    out, err = (stream.read_text() for stream in streams)
    return subprocess.CompletedProcess(arguments, code, out, err)


def _run_apart(out: Path, err: Path, *arguments: Any) -> None:
    os.setsid()
    for number, path in ((1, out), (2, err)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), number)
    call_coatcheck(*arguments)
