"""A real terminal, in tmux: typed into, and read from."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.cli.serving import PATIENCE, ROOT, environment

LOOK_SECONDS = 0.03
BASH = ("bash", "--norc", "--noprofile")
QUICK_SHELL = (sys.executable, "-m", "tests.terminal.shell")
_PROMPTS = ("ready$", "$")
_NAMES = itertools.count()


def has_tmux() -> bool:
    return shutil.which("tmux") is not None


def wait_until(condition: Callable[[], object], describe: Callable[[], object] = str) -> None:
    """Look again and again until it is so: neither a terminal nor a file tells of changes."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, describe()
        time.sleep(LOOK_SECONDS)


class Screen:
    """One terminal, with a shell in it."""

    def __init__(self, folder: Path, shell: tuple[str, ...] = BASH, *, width: int = 150, height: int = 40) -> None:
        self._socket = f"coatcheck-{os.getpid()}-{next(_NAMES)}"
        known = {name: value for name, value in environment(folder).items() if name not in ("COLUMNS", "LINES")}
        known.pop("NO_COLOR", None)
        known |= {"PATH": f"{Path(sys.executable).parent}:{known['PATH']}", "HISTFILE": "/dev/null"}
        size = ("-x", str(width), "-y", str(height))
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, *shell, env=known)
        self._is_bash = shell == BASH

    def __enter__(self) -> Self:
        if self._is_bash:
            self.type(f"PS1='{_PROMPTS[0]} '; clear")
        self.waits_until(lambda: self.is_idle)
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(("tmux", "-L", self._socket, "kill-server"), capture_output=True)
        Path(os.environ.get("TMUX_TMPDIR", "/tmp"), f"tmux-{os.getuid()}", self._socket).unlink(missing_ok=True)

    @property
    def is_idle(self) -> bool:
        return self.last_line().strip() in _PROMPTS

    def run(self, *command: str) -> None:
        """Run a command of `coatcheck` on an empty screen; its exit code is shown after it."""
        words = shlex.join(("coatcheck", *command))
        line = f"clear; {words}; echo exit=$?" if self._is_bash else words
        typed = f"$ {line[:20]}"
        self.waits_until(lambda: self.is_idle)
        self._tmux("send-keys", "-l", line)
        self.waits_until(lambda: typed in self.text())
        self.press("Enter")
        self.waits_until(lambda: typed not in self.text())  # it has begun; by now it may have ended as well

    def type(self, line: str) -> None:
        if line:
            self._tmux("send-keys", "-l", line)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def text(self) -> str:
        """Return what is on the screen now."""
        return self._tmux("capture-pane", "-p")

    def coloured(self) -> str:
        """Return the same with its colours, as escape sequences."""
        return self._tmux("capture-pane", "-p", "-e")

    def last_line(self) -> str:
        return next((line for line in reversed(self.text().splitlines()) if line.strip()), "")

    def waits_until(self, condition: Callable[[], object]) -> None:
        wait_until(condition, self.text)

    def sees(self, *words: str) -> str:
        """Wait until all of these are on the screen; return it."""
        found: list[str] = []

        def is_there() -> bool:
            found[:] = [self.text()]
            return all(word in found[0] for word in words)

        self.waits_until(is_there)
        return found[0]

    def asks(self, prompt: str, answer: str) -> None:
        """Wait until the last line is a prompt, and answer it."""
        self.waits_until(lambda: self.last_line().startswith(prompt) and self.last_line().endswith((":", "?", ">")))
        self.type(answer)

    def ends(self) -> tuple[int, str]:
        """Wait until the command has ended; return its exit code and what is on the screen."""
        self.waits_until(lambda: re.search(r"^exit=\d+$", self.text(), re.MULTILINE))
        text = self.text()
        return int(re.findall(r"^exit=(\d+)$", text, re.MULTILINE)[-1]), text

    def _tmux(self, *command: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            ("tmux", "-L", self._socket, *command), cwd=ROOT, env=env, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
