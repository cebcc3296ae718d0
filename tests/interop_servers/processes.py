"""Servers that others wrote, each a process of its own on a port that was free."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress

PATIENCE = 60
"""Seconds to wait for what should come soon, on however busy a machine."""

_TRIES_PER_SECOND = 50


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Process:
    """A server that can be killed and started again where it was."""

    def __init__(self, command: Sequence[str], port: int, env: Mapping[str, str] | None = None) -> None:
        self._command, self._port, self._env = command, port, {**os.environ, **(env or {})}
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the server
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, also again, and wait until somebody listens at its port."""
        if self._process:
            self._process.wait(PATIENCE)
        self._process = process = subprocess.Popen(
            self._command, env=self._env, stdin=subprocess.DEVNULL, stdout=self._said, stderr=subprocess.STDOUT
        )
        for _ in range(PATIENCE * _TRIES_PER_SECOND):
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", self._port), PATIENCE):
                return
            with suppress(subprocess.TimeoutExpired):
                process.wait(1 / _TRIES_PER_SECOND)
                break
        raise AssertionError(f"Nobody listens at port {self._port}; the exit code is {process.returncode}")

    def kill(self) -> None:
        assert self._process
        self._process.kill()
        self._process.wait(PATIENCE)

    def end(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            self.kill()
        self._said.close()

    def words(self) -> str:
        """Return what it said so far."""
        self._said.seek(0)
        return self._said.read().decode(errors="replace")


@contextmanager
def running(command: Sequence[str], port: int, env: Mapping[str, str] | None = None) -> Generator[Process]:
    process = Process(command, port, env)
    try:
        process.start()
        yield process
    except BaseException as error:
        error.add_note(f"The server said: {process.words()}")
        raise
    finally:
        process.end()
