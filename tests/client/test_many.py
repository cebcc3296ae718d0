"""A thousand handles in one process, or hundreds that look for themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.crowd_app import INTERVAL
from tests.conformance.serving import PATIENCE, serving

pytestmark = pytest.mark.slow

_PROGRAM = Path(__file__).parent / "crowd.py"
_MOST_BYTES = 20_000
_WAYS = {"told": ("2026-07-28", "push", 1000), "looking": ("2025-11-25", "poll", 400)}
"""Those that look keep both sides busy, so a few hundred come late for the interval already."""


@pytest.mark.parametrize("way", _WAYS)
def test_many_handles_are_light_polite_and_leave_nothing(way: str, tmp_path: Path) -> None:
    """In one test, as it takes a while: all results, under 20 kB each, no sooner than the interval, no task left."""
    *options, count = _WAYS[way]
    with serving("tests.client.crowd_app:server", tmp_path, "--log-level", "error") as url:
        command = [sys.executable, str(_PROGRAM), url, *map(str, options), str(count)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=6 * PATIENCE)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    print(seen)
    assert seen["results"] == count
    assert seen["left"] == 0
    assert seen["bytes"] < _MOST_BYTES
    assert seen["polls"]["shortest"] > 0.99 * INTERVAL
    if way == "told":
        assert seen["polls"]["looks"] < count
