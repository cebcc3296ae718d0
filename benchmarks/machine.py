"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from pathlib import Path
from statistics import median

import msgspec
import psutil


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    python: str
    sqlite: str
    system: str
    cores: int
    load_before: float
    """Load average of the last minute: above zero, others were at work too."""
    fdatasync_p50_us: float


def this_machine(folder: Path) -> Machine:
    return Machine(
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cores=psutil.cpu_count() or 0,
        load_before=os.getloadavg()[0],
        fdatasync_p50_us=fdatasync_p50_us(folder),
    )


def fdatasync_p50_us(folder: Path) -> float:
    """Return how long the disk takes to keep one more page of a growing file."""
    path, seconds = folder / "fdatasync", list[float]()
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    for _ in range(200):
        os.write(fd, bytes(4096))
        started = time.perf_counter()
        os.fdatasync(fd)
        seconds.append(time.perf_counter() - started)
    os.close(fd)
    path.unlink()
    return median(seconds) * 1e6
