"""Wakes other processes on the same file: each rings in a small file of its own, and hears those of the others.

A ring file holds a counter and a circle of changed keys, so a process wakes only for what it waits for. One process
writes each file, so there are no locks. A lost ring costs time, never truth: the woken read the store.
"""

from __future__ import annotations

import asyncio
import fcntl
import mmap
import os
import secrets
import struct
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from coatcheck.stores.sqlite.inotify import Inotify

_SLOTS = 4096
_NUMBER = struct.Struct("<Q")
_SIZE = _NUMBER.size * (1 + _SLOTS)
POLL_SECONDS = 0.02


@dataclass(slots=True)
class _Ring:
    """Another process's file, and how far it has been heard."""

    fd: int
    heard: int
    watch: int


class Bell:
    def __init__(self, folder: Path, on_ring: Callable[[Iterable[int] | None], None]) -> None:
        """`on_ring` is called on the loop with the keys others changed, or None: anything may have."""
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder, self._on_ring = folder, on_ring
        self._name, self._fd = _new_ring(folder)
        self._slots = mmap.mmap(self._fd, _SIZE)
        self._rung = 0
        self._rings: dict[str, _Ring] = {}
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._inotify = _inotify()
        if self._inotify:
            self._inotify.watch_folder(folder)
            self._loop.add_reader(self._inotify.fd, self._on_event)
        else:
            self._poll()
        self._discover(is_first_look=True)

    def ring(self, keys: Iterable[int]) -> None:
        """Tell the others. Only the counter is written in a way that they are told of, and it comes last."""
        for key in keys:
            _NUMBER.pack_into(self._slots, _NUMBER.size * (1 + self._rung % _SLOTS), key)
            self._rung += 1
        os.pwrite(self._fd, _NUMBER.pack(self._rung), 0)

    def close(self) -> None:
        if self._inotify:
            self._loop.remove_reader(self._inotify.fd)
        if self._timer:
            self._timer.cancel()
        for name in list(self._rings):
            self._forget(name)
        if self._inotify:
            self._inotify.close()
        with suppress(OSError):
            (self._folder / self._name).unlink()
        self._slots.close()
        os.close(self._fd)

    def _on_event(self) -> None:
        assert self._inotify is not None
        watches = self._inotify.read()
        if watches - {ring.watch for ring in self._rings.values()}:
            self._discover(is_first_look=False)
        for ring in self._rings.values():
            self._hear(ring)

    def _poll(self) -> None:
        """Where nothing announces changes: look at the counters, which are a few bytes each."""
        self._timer = self._loop.call_later(POLL_SECONDS, self._poll)
        self._discover(is_first_look=False)
        for ring in self._rings.values():
            self._hear(ring)

    def _hear(self, ring: _Ring) -> None:
        rung = _number(ring.fd)
        if rung - ring.heard > _SLOTS // 2:  # the writer may be overwriting what we would read
            self._on_ring(None)
        elif rung > ring.heard:
            self._on_ring([_number(ring.fd, 1 + place % _SLOTS) for place in range(ring.heard, rung)])
        ring.heard = rung

    def _discover(self, *, is_first_look: bool) -> None:
        """Open the rings of processes that came; drop those of processes that went, or died without a word."""
        names = {entry.name for entry in os.scandir(self._folder) if entry.name.endswith(".bell")} - {self._name}
        for name in self._rings.keys() - names:
            self._forget(name)
        for name in names - self._rings.keys():
            with suppress(FileNotFoundError):
                self._open(name, is_first_look=is_first_look)

    def _open(self, name: str, *, is_first_look: bool) -> None:
        path = self._folder / name
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if is_first_look and _is_abandoned(fd):
            path.unlink()
            os.close(fd)
            return
        watch = self._inotify.watch_file(path) if self._inotify else 0
        # Who came after us is heard from its first ring, even those before we noticed it.
        self._rings[name] = _Ring(fd, _number(fd) if is_first_look else 0, watch)

    def _forget(self, name: str) -> None:
        ring = self._rings.pop(name)
        if self._inotify:
            self._inotify.unwatch(ring.watch)
        os.close(ring.fd)


def _inotify() -> Inotify | None:
    try:
        return Inotify() if sys.platform == "linux" else None
    except OSError:  # the system allows each user only so many
        return None


def _new_ring(folder: Path) -> tuple[str, int]:
    """Make a ring file and lock it: the lock tells others that its process lives."""
    while True:
        path = folder / f"{os.getpid()}-{secrets.token_hex(4)}.bell"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_SH)
        if path.exists():  # nobody took it for abandoned before it was locked
            os.ftruncate(fd, _SIZE)
            return path.name, fd
        os.close(fd)


def _is_abandoned(fd: int) -> bool:
    """The lock on a ring file ends with its process, however that ends."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _number(fd: int, place: int = 0) -> int:
    read = os.pread(fd, _NUMBER.size, _NUMBER.size * place)
    return _NUMBER.unpack(read)[0] if len(read) == _NUMBER.size else 0
