"""Processes of these tests, each of which runs a function."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from tests.client_faults.gate import PATIENCE
from tests.forked import CONTEXT, ended


class Child:
    """A process that runs one function, and can be killed."""

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        self._process = CONTEXT.Process(target=function, args=arguments, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal, and wait until the process has ended."""
        if self.is_alive:
            os.kill(self.pid, number)
            assert self.ends_within(PATIENCE)

    def ends_within(self, seconds: float) -> bool:
        self._process.join(seconds)
        return not self.is_alive

    async def ended(self) -> None:
        """Wait until the process has ended by itself, and well."""
        assert await ended(self._process, PATIENCE) == 0
