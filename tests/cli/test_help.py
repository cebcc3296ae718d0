"""What the command line says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import coatcheck
from tests.cli.serving import run

pytestmark = pytest.mark.slow


def test_the_help_shows_how_to_serve(tmp_path: Path) -> None:
    done = run(tmp_path, "serve", "--help")
    assert done.returncode == 0
    for word in ("coatcheck serve app:server", "--http", "--stdio", "--store", "--workers", "--concurrency"):
        assert word in done.stdout
    assert "COATCHECK_STORE" in done.stdout
    assert "127.0.0.1:8000" in done.stdout


def test_without_a_command_it_lists_the_commands(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert "serve" in done.stdout
    assert "Traceback" not in done.stderr


def test_it_says_its_version(tmp_path: Path) -> None:
    done = run(tmp_path, "--version")
    assert (done.returncode, done.stdout) == (0, f"{coatcheck.__version__}\n")
