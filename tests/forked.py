"""Processes forked from one that has everything imported: those that import it themselves take a second each."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from threading import Thread
from typing import Any

from coatcheck.cli import main

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["coatcheck.cli.serve", "coatcheck.server", "tests.client_faults.program", "tests.crash.programs"]
)


def call_coatcheck(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Do in this process what `python -m coatcheck` does in a folder."""
    os.chdir(folder)
    _set_environment(environment)
    sys.path.insert(0, str(folder))
    sys.argv = ["coatcheck", *arguments]
    main()


async def ended(process: ForkServerProcess, within: float) -> int | None:
    """Wait for the end; return the exit code, or minus the signal that ended it.

    On the loop, not in a thread: how a process ended can be read once, and whoever starts another reads it as well.
    """
    has_ended, sentinel = asyncio.Event(), os.dup(process.sentinel)
    loop = asyncio.get_running_loop()
    loop.add_reader(sentinel, has_ended.set)
    try:
        async with asyncio.timeout(within):
            await has_ended.wait()
    finally:
        loop.remove_reader(sentinel)
        os.close(sentinel)
    return process.exitcode


class Forked:
    """A process in a session of its own: it is told lines, and what it says on one of its streams can be read."""

    def __init__(self, process: ForkServerProcess, told: Connection, transport: asyncio.BaseTransport) -> None:
        assert process.pid
        self.pid = process.pid
        self._process, self._told, self._transport = process, told, transport

    def tell(self, line: str) -> None:
        os.write(self._told.fileno(), f"{line}\n".encode())

    def tell_no_more(self) -> None:
        """Let it read to the end of what it was told."""
        self._told.close()

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it may have ended a moment ago, and nobody has heard of it yet
            if self._process.is_alive():
                os.kill(self.pid, number)

    async def ended(self, within: float) -> int:
        """Wait for the end; return the exit code, or minus the signal that ended it."""
        code = await ended(self._process, within)
        assert code is not None
        return code

    async def clean_up(self, within: float) -> None:
        """End the process and whatever it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.signal(signal.SIGKILL)  # which has no session yet if it has only begun
        await self.ended(within)
        self.tell_no_more()
        self._transport.close()


async def fork(
    function: Callable[..., None], *arguments: Any, stream: int, limit: int = 2**16
) -> tuple[Forked, asyncio.StreamReader]:
    """Run a function in a process; return what it says on a stream, 1 or 2, as well, in lines up to a limit."""
    reader, writer = CONTEXT.Pipe(duplex=False)
    given, told = CONTEXT.Pipe(duplex=False)
    with writer, given:
        process = CONTEXT.Process(target=_run, args=(given, writer, stream, _here(), function, arguments))
        process.start()
    said = asyncio.StreamReader(limit)
    # The file is closed by the transport, and the connection must not close it a second time.
    pipe = os.fdopen(os.dup(reader.fileno()), "rb", buffering=0)
    reader.close()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(said), pipe)
    return Forked(process, told, transport), said


def _run(given: Connection, said: Connection, stream: int, *rest: Any) -> None:
    with given, said:
        os.dup2(given.fileno(), 0)
        os.dup2(said.fileno(), stream)
    _begin(*rest)


def _here() -> tuple[int, dict[str, str]]:
    """Return what a process has of the one that starts it."""
    return os.getpid(), dict(os.environ)


def _begin(here: tuple[int, Mapping[str, str]], function: Callable[..., None], arguments: Sequence[Any]) -> None:
    """Run a function as if the process that wants it run had started this one itself."""
    os.setsid()
    starter, environment = here
    Thread(target=_end_with, args=(starter,), daemon=True).start()
    _set_environment(environment)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115, as it is read until the process ends
    function(*arguments)


def _end_with(starter: int) -> None:
    """Leave nobody behind, not even when the tests themselves are killed."""
    with suppress(ProcessLookupError):
        select.select([os.pidfd_open(starter)], [], [])
    os.kill(os.getpid(), signal.SIGKILL)


def _set_environment(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def run(
    function: Callable[..., None], *arguments: Any, folder: Path, within: float, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a function that ends by itself, is given something to read, and leaves what it says in a folder."""
    streams = [folder / f"{name}.txt" for name in ("stdin", "stdout", "stderr")]
    streams[0].write_text(given)
    process = CONTEXT.Process(target=_run_to_the_end, args=(streams, _here(), function, arguments))
    process.start()
    process.join(within)
    if (code := process.exitcode) is None:
        process.kill()
        raise TimeoutError(f"{arguments} has not ended after {within} seconds")
    _, out, err = (stream.read_text() for stream in streams)
    return subprocess.CompletedProcess(arguments, code, out, err)


def _run_to_the_end(streams: Sequence[Path], *rest: Any) -> None:
    for number, path in enumerate(streams):
        with path.open("wb" if number else "rb") as file:
            os.dup2(file.fileno(), number)
    _begin(*rest)
