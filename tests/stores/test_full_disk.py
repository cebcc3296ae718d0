"""A disk that is full fails the writes of that moment, whole, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.stores.child import ROOT

pytestmark = pytest.mark.slow

CHILD = (sys.executable, "-m", "tests.stores.full_disk")
IN_A_SMALL_DISK = 'mount -t tmpfs -o size=400k tmpfs "$1" && shift && exec "$@"'


def ran(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def can_mount(folder: Path) -> bool:
    return ran("unshare", "-m", "sh", "-c", IN_A_SMALL_DISK, "sh", folder, "true").returncode == 0


def test_a_batch_that_does_not_fit_fails_for_all_and_leaves_nothing_and_the_next_one_is_written(
    tmp_path: Path,
) -> None:
    child = ran(*CHILD, "limit", tmp_path / "tasks.db")
    assert child.stdout.splitlines() == [
        "['StoreUnavailable']",
        "['old/1'] 0",
        "['Task', 'bool']",
        "21 1",
    ], child.stderr
    assert child.returncode == 0


def test_a_disk_that_fills_up_does_not_kill_the_process(tmp_path: Path) -> None:
    """A write may just fit while the ring of the bell does not: memory mapped to a hole in a file is a trap."""
    if not can_mount(tmp_path):
        pytest.skip("needs the right to mount a small disk")
    child = ran("unshare", "-m", "sh", "-c", IN_A_SMALL_DISK, "sh", tmp_path, *CHILD, "fill", tmp_path / "tasks.db")
    assert child.returncode == 0, child.stderr
    assert child.stdout.splitlines() == ["No space left on device", "True", "True"]


def test_a_ring_that_could_not_be_written_does_not_make_the_later_ones_inaudible(tmp_path: Path) -> None:
    child = ran(*CHILD, "ring", tmp_path)
    assert child.stdout == "heard\n", child.stderr
