"""Several processes that do the same on one store. One that dies is replaced; when the first ends, all end."""

from __future__ import annotations

import logging
import multiprocessing
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from types import FrameType

from coatcheck.server.task_server import STATE_KEY_VARIABLE

logger = logging.getLogger("coatcheck.serve")
_RESTART_SECONDS = 1.0
_LOOK_SECONDS = 1.0


class Processes:
    def __init__(self, run: Callable[..., int], *arguments: object) -> None:
        """`run`, with `arguments`, is what each of them does; it returns the exit code."""
        self._arguments = (run, arguments, os.getpid())
        self._is_stopping = False
        self._children: list[SpawnProcess] = []

    def serve(self, count: int) -> int:
        """Run `count` processes until told to stop; return the exit code."""
        # What one process gives a client to bring back, another must be able to read.
        os.environ.setdefault(STATE_KEY_VARIABLE, secrets.token_hex(32))
        for sig in (signal.SIGINT, signal.SIGTERM):
            signal.signal(sig, self._stop)
        for _ in range(count):
            self._start()
        while self._children:
            wait([child.sentinel for child in self._children], timeout=_LOOK_SECONDS)
            for child in [child for child in self._children if child.exitcode is not None]:
                self._children.remove(child)
                self._replace(child)
        return 0

    def _start(self) -> None:
        if self._is_stopping:
            return
        child = multiprocessing.get_context("spawn").Process(target=_child, args=self._arguments)
        child.start()
        self._children.append(child)
        if self._is_stopping:  # told while this one was being started, and not yet among those to tell
            child.terminate()

    def _replace(self, child: SpawnProcess) -> None:
        if self._is_stopping:
            return
        logger.error("Process %s ended with exit code %s; starting another", child.pid, child.exitcode)
        time.sleep(_RESTART_SECONDS)
        self._start()

    def _stop(self, sig: int, frame: FrameType | None) -> None:
        self._is_stopping = True
        for child in self._children:
            child.terminate()


def _child(run: Callable[..., int], arguments: tuple[object, ...], parent: int) -> None:
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    sys.exit(run(*arguments))


def _end_with(parent: int) -> None:
    """Stop when the parent is gone: it may have been killed without a word."""
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(_LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
