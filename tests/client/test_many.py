"""A thousand handles in one process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.crowd_app import INTERVAL
from tests.conformance.serving import PATIENCE, serving

pytestmark = pytest.mark.slow

COUNT = 1000
_PROGRAM = Path(__file__).parent / "crowd.py"
_MOST_BYTES = 20_000
_WAYS = {"told": ("2026-07-28", "push"), "looking": ("2025-11-25", "poll")}


@pytest.mark.parametrize("way", _WAYS)
def test_a_thousand_handles_are_light_polite_and_leave_nothing(way: str, tmp_path: Path) -> None:
    """In one test, as it takes a while: all results, under 20 kB each, no sooner than the interval, no task left."""
    with serving("tests.client.crowd_app:server", tmp_path, "--log-level", "error") as url:
        command = [sys.executable, str(_PROGRAM), url, *_WAYS[way], str(COUNT)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=6 * PATIENCE)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    print(seen)
    assert seen["results"] == COUNT
    assert seen["left"] == 0
    assert seen["bytes"] < _MOST_BYTES
    assert seen["polls"]["shortest"] > 0.99 * INTERVAL
    if way == "told":
        assert seen["polls"]["looks"] < COUNT
