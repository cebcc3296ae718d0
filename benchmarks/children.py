"""Processes of their own for what must be measured in one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[1]


def command(module: str, *args: object) -> list[str]:
    return [sys.executable, "-m", module, *map(str, args)]


def answer_of(module: str, *args: object) -> Any:
    """Run a module and return the JSON it prints."""
    done = subprocess.run(command(module, *args), cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=300)
    return msgspec.json.decode(done.stdout)


def say(answer: object) -> None:
    print(msgspec.json.encode(answer).decode())
