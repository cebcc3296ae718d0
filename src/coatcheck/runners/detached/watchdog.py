"""Ends this process when it should have ended: in a thread, as the event loop may be what hangs."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_WAKE = b"\0"


class Watchdog:
    """Tells of signals, and kills the process, with all it has started, after the time it is given."""

    def __init__(self, on_signal: Callable[[], None]) -> None:
        """Must be made in the main thread; `on_signal` is called in another."""
        self._on_signal = on_signal
        self._deadline: float | None = None
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        # The interpreter writes there the moment a signal comes, even if the main thread never gets to its handler.
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, self._handle)
        threading.Thread(target=self._watch, name="coatcheck-watchdog", daemon=True).start()

    def give(self, seconds: float) -> None:
        """Let the process live that long from now on; what was given before counts no more."""
        self._deadline = time.monotonic() + seconds
        self._tell(_WAKE)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._tell(bytes((number,)))  # should someone else have asked for wake-ups since

    def _tell(self, word: bytes) -> None:
        with suppress(BlockingIOError):  # it has enough to read
            os.write(self._writer, word)

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        while True:
            if poll.poll(None if self._deadline is None else max(0.0, self._deadline - time.monotonic()) * 1000):
                if any(number in _SIGNALS for number in os.read(self._reader, 64)):
                    self._on_signal()
            elif self._deadline is not None and time.monotonic() >= self._deadline:
                _kill()


def _kill() -> None:
    os.write(2, b"coatcheck: this process has not ended in the time it was given, so it is killed\n")
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
