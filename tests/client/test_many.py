"""A thousand handles in one process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.client.crowd_app import INTERVAL
from tests.conformance.serving import PATIENCE, serving

pytestmark = pytest.mark.slow

COUNT = 1000
_PROGRAM = Path(__file__).parent / "crowd.py"
_MOST_BYTES = 20_000
_WAYS = {
    "2026-07-28 told": ("2026-07-28", "push"),
    "2026-07-28": ("2026-07-28", "poll"),
    "2025-11-25": ("2025-11-25", "poll"),
}


@pytest.fixture(scope="module", params=_WAYS, ids=list(_WAYS))
def way(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def seen(way: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What became of a crowd."""
    with serving("tests.client.crowd_app:server", tmp_path_factory.mktemp("store"), "--log-level", "error") as url:
        command = [sys.executable, str(_PROGRAM), url, *_WAYS[way], str(COUNT)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=6 * PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_has_its_result(seen: dict[str, Any]) -> None:
    assert seen["results"] == COUNT


def test_no_task_is_left_running(seen: dict[str, Any]) -> None:
    assert seen["left"] == 0


def test_a_handle_takes_less_than_20_kilobytes(seen: dict[str, Any]) -> None:
    assert seen["bytes"] < _MOST_BYTES


def test_no_task_is_looked_at_more_often_than_the_server_wants(seen: dict[str, Any], way: str) -> None:
    assert seen["polls"]["shortest"] > 0.99 * INTERVAL
    if way == "2026-07-28 told":
        assert seen["polls"]["looks"] < COUNT
