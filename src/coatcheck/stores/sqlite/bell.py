"""Wakes other processes on the same file: each rings in a small file of its own, and hears those of the others.

A ring file is a circle of numbered keys, so a process wakes only for what it waits for. One process writes each
file, so there are no locks. A lost ring costs time, never truth: the woken read the store.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from coatcheck.stores.sqlite.inotify import Inotify

_SLOTS = 4096
_SLOT = struct.Struct("<QQ")  # the number of the ring, counted from 1, and the key that was rung
_SIZE = _SLOT.size * _SLOTS
_CHUNK = 64
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
        self._rung = 0
        self._rings: dict[str, _Ring] = {}
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._inotify = _inotify()
        if self._inotify:
            self._inotify.watch_folder(folder)
            self._loop.add_reader(self._inotify.fd, self._on_event)
        self._discover(is_first_look=True)
        if not self._inotify:
            self._poll()

    def ring(self, keys: Sequence[int]) -> None:
        """Tell the others, in one write wherever the circle allows."""
        last = self._rung + len(keys)
        keys = keys[-_SLOTS:]
        slots = _pack(range(last - len(keys) + 1, last + 1), keys)
        start = _SLOT.size * ((last - len(keys) + 1) % _SLOTS)
        with suppress(OSError):  # a full disk: what was committed stands, and the others will look in time
            os.pwrite(self._fd, slots[: _SIZE - start], start)
            if rest := slots[_SIZE - start :]:
                os.pwrite(self._fd, rest, 0)
            self._rung = last

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
        """Pass on what was rung since; if the ringer has overtaken us, anything may have been."""
        keys: list[int] = []
        while new := _read(ring.fd, ring.heard + 1):
            if new[0][0] != ring.heard + 1:
                ring.heard = _latest(ring.fd)
                self._on_ring(None)
                return
            keys += [key for _, key in new]
            ring.heard = new[-1][0]
        if keys:
            self._on_ring(keys)

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
        try:
            if is_first_look and _is_abandoned(fd):
                path.unlink()
                raise FileNotFoundError
            watch = self._inotify.watch_file(path) if self._inotify else 0
        except FileNotFoundError:
            os.close(fd)
            return
        # Who came after us is heard from its first ring, even those before we noticed it.
        self._rings[name] = _Ring(fd, _latest(fd) if is_first_look else 0, watch)

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


def _pack(numbers: Iterable[int], keys: Sequence[int]) -> bytes:
    return struct.pack(f"<{2 * len(keys)}Q", *chain.from_iterable(zip(numbers, keys, strict=True)))


def _read(fd: int, number: int) -> list[tuple[int, int]]:
    """Return the rings from `number` on, as far as they follow each other; another one if it was overwritten."""
    place = number % _SLOTS
    raw = os.pread(fd, _SLOT.size * min(_CHUNK, _SLOTS - place), _SLOT.size * place)
    rings = list(_SLOT.iter_unpack(raw[: len(raw) - len(raw) % _SLOT.size]))
    if not rings or rings[0][0] < number:
        return []
    run = next((count for count, (found, _) in enumerate(rings) if found != rings[0][0] + count), len(rings))
    return rings[:run]


def _latest(fd: int) -> int:
    raw = os.pread(fd, _SIZE, 0)
    return max((number for number, _ in _SLOT.iter_unpack(raw[: len(raw) - len(raw) % _SLOT.size])), default=0)
