"""Folders that take long to make, made once for all processes and for all runs."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

BUILD = Path(__file__).parents[2] / "build"


def made_once(folder: Path, recipe: Path, make: Callable[[Path], None]) -> Path:
    """Return the folder, made by whoever comes first, and anew if its recipe changed or it was left half made."""
    ready = folder / ".ready"
    made_of = hashlib.sha256(recipe.read_bytes()).hexdigest()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists() or ready.read_text() != made_of:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            ready.write_text(made_of)
    return folder
