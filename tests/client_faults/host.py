"""A server process that is killed, and others that take its place on the same store."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread

from tests.cli.serving import ROOT, environment
from tests.client_faults.gate import PATIENCE
from tests.client_faults.processes import Child
from tests.forked import CONTEXT, call_coatcheck

_ENDPOINT = re.compile(r"endpoint +http://127\.0\.0\.1:(\d+)")
_TRIES_PER_SECOND = 50


def command(name: str, folder: Path) -> list[str]:
    """Return what `python -m` is told to serve a server of `app` on the store of a folder, but for the transport."""
    return ["coatcheck", "serve", f"tests.client_faults.app:{name}", "--store", f"sqlite:///{folder}/{name}.db"]


class Host:
    """What starts these processes, one at a time."""

    def __init__(self, name: str, folder: Path) -> None:
        self._command, self._environment = command(name, folder), environment(folder)
        self._child: Child | None = None
        self._reading: Thread | None = None
        self.port = 0
        self.said: list[str] = []

    @property
    def is_there(self) -> bool:
        return self._child is not None and self._child.is_alive

    def start(self) -> None:
        """Start a server at a free port, and wait until it listens there."""
        reader, writer = CONTEXT.Pipe(duplex=False)
        with writer:
            self._child = Child(_serve, [*self._command, "--http", "127.0.0.1:0"], self._environment, writer)
        port: Future[int] = Future()
        self._reading = Thread(target=self._read, args=(reader, port))
        self._reading.start()
        self.port = port.result(PATIENCE)
        self._wait_for_it()

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self._child and self._reading:
            self._child.end(number)
            self._reading.join()
            self._child = self._reading = None

    def _read(self, reader: Connection, port: Future[int]) -> None:
        """Read what the server says to its end, lest it wait for a reader."""
        with reader, open(reader.fileno(), closefd=False) as lines:
            for line in lines:
                self.said.append(line)
                if not port.done() and (found := _ENDPOINT.search(line)):
                    port.set_result(int(found[1]))
        if not port.done():
            port.set_exception(AssertionError(f"The server ended and said only {self.said}"))

    def _wait_for_it(self) -> None:
        """A port is named before it is open."""
        assert self._child
        for _ in range(PATIENCE * _TRIES_PER_SECOND):
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", self.port), PATIENCE):
                return
            if self._child.ends_within(1 / _TRIES_PER_SECOND):
                break
        raise AssertionError(f"Nobody listens at port {self.port}; the server said {self.said}")


def _serve(command: Sequence[str], environment: Mapping[str, str], said: Connection) -> None:
    """Do in this process what `python -m coatcheck serve` does."""
    os.dup2(said.fileno(), 2)
    call_coatcheck(command[1:], ROOT, environment)
