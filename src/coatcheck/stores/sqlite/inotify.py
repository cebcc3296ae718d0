"""Linux's inotify, as far as the bell needs it."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

_IN_MODIFY, _IN_CREATE, _IN_DELETE = 0x2, 0x100, 0x200
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_EVENT = struct.Struct("iIII")


class Inotify:
    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = _checked(self._libc.inotify_init1(_NONBLOCK_CLOEXEC), "inotify")

    def watch_folder(self, folder: Path) -> int:
        """Announce files that come and go."""
        return self._watch(folder, _IN_CREATE | _IN_DELETE)

    def watch_file(self, path: Path) -> int:
        """Announce writes."""
        return self._watch(path, _IN_MODIFY)

    def unwatch(self, watch: int) -> None:
        self._libc.inotify_rm_watch(self.fd, watch)

    def read(self) -> set[int]:
        """Return the watches with news. A queue that overflowed shows up as watch -1."""
        try:
            events = os.read(self.fd, 65536)
        except BlockingIOError:
            return set()
        watches: set[int] = set()
        at = 0
        while at < len(events):
            watch, _, _, name_length = _EVENT.unpack_from(events, at)
            watches.add(watch)
            at += _EVENT.size + name_length
        return watches

    def close(self) -> None:
        os.close(self.fd)

    def _watch(self, path: Path, mask: int) -> int:
        return _checked(self._libc.inotify_add_watch(self.fd, os.fsencode(path), mask), str(path))


def _checked(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), what)
    return result
