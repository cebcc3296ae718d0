"""`coatcheck` called in this process, which is quicker than in another, and a server to call."""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coatcheck.cli import main
from tests.cli.serving import PATIENCE, ROOT, environment

APP = "tests.terminal.app:server"


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The one sentence on stderr, without the name before it."""
        (line,) = self.err.splitlines()
        assert line.startswith("coatcheck: "), self.err
        return line.removeprefix("coatcheck: ")

    @property
    def json(self) -> Any:
        (line,) = self.out.splitlines()
        return json.loads(line)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


_LOUD = ("httpx2", "uvicorn.access", "uvicorn.error", "mcp.server.streamable_http_manager")


class Caller:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._monkeypatch, self._capfd = monkeypatch, capfd
        monkeypatch.chdir(folder)
        for name in [name for name in os.environ if name.startswith("COATCHECK_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setenv("NO_COLOR", "1")
        # As in a process of its own: servers that other tests made here have the SDK log to stderr.
        monkeypatch.setattr(logging.root, "handlers", [])

    def __call__(self, *arguments: str) -> Done:
        self._monkeypatch.setattr(sys, "argv", ["coatcheck", *arguments])
        self._capfd.readouterr()
        with pytest.raises(SystemExit) as ended, _leaving_no_trace():
            main()
        said = self._capfd.readouterr()
        assert "Traceback" not in said.err
        assert isinstance(ended.value.code, int)
        return Done(int(ended.value.code), said.out, said.err)


@contextmanager
def _leaving_no_trace() -> Generator[None]:
    """Put back what a process of its own would take along: the environment, and how loud its logs are."""
    before, loggers = dict(os.environ), [logging.root, *map(logging.getLogger, _LOUD)]
    levels = [logger.level for logger in loggers]
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def serving(folder: Path, target: str = APP, **more: str) -> Generator[str]:
    """Serve over HTTP, in a process; give the URL."""
    command = (sys.executable, "-m", "coatcheck", "serve", target, "--http", "127.0.0.1:0")
    process = subprocess.Popen(
        (*command, "--store", f"sqlite:///{folder}/tasks.db"),
        cwd=ROOT,
        env=environment(folder, **more),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield _endpoint(process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _endpoint(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr
    deadline, said = time.monotonic() + PATIENCE, b""
    while b"\n  store" not in said:
        assert select.select([process.stderr], [], [], max(0, deadline - time.monotonic()))[0], said
        read = os.read(process.stderr.fileno(), 65536)
        assert read, said
        said += read
    return said.decode().partition("  endpoint ")[2].splitlines()[0].strip()
