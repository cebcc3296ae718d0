"""FastMCP in an environment of its own: what it needs must not decide what we are tested with."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

from tests.conformance.once import BUILD, made_once

VERSION = "4.1.2"
_CONSTRAINTS = Path(__file__).parent / "fastmcp-constraints.txt"
_INSTALLING = 600


def python() -> Path:
    """Return the interpreter that can import it."""
    return made_once(BUILD / f"fastmcp-{VERSION}", _CONSTRAINTS, _make) / "bin" / "python"


def _make(folder: Path) -> None:
    venv.create(folder, with_pip=True)
    install = (folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    packages = (f"fastmcp[tasks]=={VERSION}", "--constraint", _CONSTRAINTS)
    subprocess.run([*install, *packages], check=True, timeout=_INSTALLING)
