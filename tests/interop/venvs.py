"""Clients in environments of their own: what they need must not decide what we are tested with."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

from tests.conformance.once import BUILD, made_once

_HERE = Path(__file__).parent
_INSTALLING = 600


def python(package: str, version: str, extra: str = "") -> Path:
    """Return an interpreter that can import the package, with all else as its constraints file has it."""
    constraints = _HERE / f"{package}-constraints.txt"

    def make(folder: Path) -> None:
        venv.create(folder, with_pip=True)
        install = (folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        packages = (f"{package}{extra}=={version}", "--constraint", constraints)
        subprocess.run([*install, *packages], check=True, timeout=_INSTALLING)

    return made_once(BUILD / f"{package}-{version}", constraints, make) / "bin" / "python"
