"""What the processes and those who watch them agree on."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from coatcheck import Policy

FOLDER_VARIABLE = "CHAOS_FOLDER"
LEASE = 2.0
"""Seconds."""
BEAT = 0.05
"""Seconds of rest between two beats; the work of one comes on top, the more the busier everything is."""
POLICY = Policy(lease=timedelta(seconds=LEASE), max_losses=1000, unwind=timedelta(seconds=0.5))


def beats_file(folder: Path, pid: int) -> Path:
    return folder / f"beats-{pid}"


def beats_of(folder: Path, pid: int) -> int:
    """Return how often the heart of a process has beaten."""
    with suppress(FileNotFoundError):
        return int(beats_file(folder, pid).read_bytes() or b"0")
    return 0
