"""Servers as processes: each on a port that was free, killed and started again where it was."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGTERM, Signals
from typing import Any

PATIENCE = 60
"""Seconds to wait for what should come soon, on however busy a machine."""

_TRIES_PER_SECOND = 50


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def as_user(user: str | None) -> dict[str, Any]:
    """Return what makes a process another user's; None: ours."""
    return {"user": user, "group": os.getgid(), "extra_groups": [], "cwd": "/"} if user else {}


class ServerProcess:
    def __init__(
        self,
        command: Sequence[str | Path],
        port: int,
        *,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> None:
        self._command, self.port = [str(word) for word in command], port
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the server
        self._manner: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": self._said, "stderr": subprocess.STDOUT}
        self._manner |= {"env": {**os.environ, **(env or {})}, **as_user(user)}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def start(self) -> None:
        """Start it, also again, and wait until somebody listens at its port."""
        is_again = self._process is not None
        if self._process:
            self._process.wait(PATIENCE)  # one that is just dying may still listen
        for _ in range(PATIENCE * _TRIES_PER_SECOND):
            if self._process is None or (is_again and self._process.poll() is not None):
                # What the one before held may be free only a moment later.
                self._process = subprocess.Popen[bytes](self._command, **self._manner)
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", self.port), PATIENCE):
                return
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1 / _TRIES_PER_SECOND)
                if not is_again:
                    break
        raise AssertionError(f"Nobody listens at port {self.port}: {self.words()}")

    def signal(self, number: Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once, without a word."""
        assert self._process
        self._process.kill()
        self._process.wait(PATIENCE)

    def stop(self, number: Signals = SIGTERM, *, patience: float = 20) -> None:
        """Ask it to end, and wait for that."""
        if self._process and self._process.poll() is None:
            self.signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
                return
            self.kill()

    def close(self) -> None:
        """Be done with it, once it has ended."""
        self._said.close()

    def words(self) -> str:
        """Return what it said so far."""
        said = self._said.fileno()  # read where nobody writes: the server has the same place in the file
        return os.pread(said, os.fstat(said).st_size, 0).decode(errors="replace")


@contextmanager
def running(command: Sequence[str | Path], port: int, env: Mapping[str, str] | None = None) -> Generator[ServerProcess]:
    process = ServerProcess(command, port, env=env)
    try:
        process.start()
        yield process
    except BaseException as error:
        error.add_note(f"The server said: {process.words()}")
        raise
    finally:
        process.stop(patience=5)
        process.close()
