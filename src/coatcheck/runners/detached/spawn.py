"""Starting a process that outlives this one: a session of its own, nothing inherited but the environment, a log."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from coatcheck.runners.detached.letter import Letter, write

PROGRAM = "coatcheck.runners.detached"
_KEEP_LOGS_SECONDS = 30 * 86400


class Child:
    """A process that was started for a task, as seen by the one that started it."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self.log, self.pid = process, log, process.pid
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[int] = self._loop.create_future()
        """Its exit code, or minus the signal that ended it."""
        # In a thread, so that no zombie stays behind when the loop is closed and the process goes on.
        threading.Thread(target=self._reap, name=f"coatcheck-reaper-{self.pid}", daemon=True).start()

    def kill(self) -> None:
        """End it and all that it has started."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def _reap(self) -> None:
        _forget_old(self.log.parent)  # which takes a while where there are many
        code = self._process.wait()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._settle, code)

    def _settle(self, code: int) -> None:
        if not self.ended.done():
            self.ended.set_result(code)


def spawn(letter: Letter, logs: Path, python: str) -> Child:
    """Start a process for the task of a letter.

    Raises:
        OSError: It cannot be started, or its log not written.
    """
    if not python:
        raise FileNotFoundError("this process does not know its Python interpreter")
    log = logs / f"{re.sub(r'[^A-Za-z0-9_-]', '_', letter.task)}.log"
    descriptor = _open_log(log)
    try:
        process = subprocess.Popen(
            [python, "-P", "-m", PROGRAM],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            env=write(letter, os.environ),
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    return Child(process, log)


def placed(store: str) -> tuple[str, Path]:
    """Return a store's URL as any folder may use it, and where logs are kept: beside its file, if it has one."""
    parts = urlsplit(store)
    if parts.scheme == "sqlite":
        file = Path(unquote(parts.path.removeprefix("/"))).expanduser().absolute()
        return f"sqlite:///{quote(str(file))}", file.with_name(f"{file.name}.logs")
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return store, Path(home).expanduser() / "coatcheck" / "logs"


def how_it_ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def our_python() -> str:
    return sys.executable or ""


def _open_log(log: Path) -> int:
    """Nobody else may read what tools say."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(log, flags, 0o600)
    os.utime(descriptor)  # one that is written to again is not old
    return descriptor


def _forget_old(logs: Path) -> None:
    oldest = time.time() - _KEEP_LOGS_SECONDS
    with suppress(OSError):  # whoever else looks after them may be quicker
        for log in logs.glob("*.log"):
            if log.stat().st_mtime < oldest:
                log.unlink(missing_ok=True)
