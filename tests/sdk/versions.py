"""Every minor of the SDK we say we work with: installed beside the one that is pinned, and put in its place."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.conformance.once import BUILD, made_once

SDKS = ("2.1.1", "2.2.0")
"""The newest of each minor before the one in constraints.txt, which all other tests run with."""

_ROOT = Path(__file__).parents[2]
_WHERE = "from importlib.util import find_spec as f; print(f('mcp').origin, f('mcp_types').origin, sep='\\n')"
_INSTALLING = 300
_RUNNING = 300


def run_tests(version: str, *arguments: str) -> None:
    """Run pytest with an SDK of this version; all else is as it is here."""
    site = installed(version)
    known = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**known, "PYTHONPATH": str(site)}
    found = _run((sys.executable, "-c", _WHERE), environment).stdout.splitlines()
    assert [Path(origin).parents[1] for origin in found] == [site, site]
    done = _run((sys.executable, "-m", "pytest", "--quiet", "--tb=short", *arguments), environment)
    assert done.returncode == 0, done.stdout + done.stderr


def installed(version: str) -> Path:
    """Return the folder from which this version of the SDK can be imported, and nothing that it needs."""
    folder = made_once(BUILD / "sdk" / version, Path(__file__), lambda folder: _install(folder, version))
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))


def _install(folder: Path, version: str) -> None:
    venv.create(folder, with_pip=True)
    install = (folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
    subprocess.run([*install, f"mcp=={version}", f"mcp-types=={version}"], check=True, timeout=_INSTALLING)


def _run(command: tuple[str, ...], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=_RUNNING)
