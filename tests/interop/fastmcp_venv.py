"""FastMCP, for its client and for its server."""

from __future__ import annotations

from pathlib import Path

from tests.interop import venvs

VERSION = "4.1.2"


def python() -> Path:
    """Return the interpreter that can import it."""
    return venvs.python("fastmcp", VERSION, "[tasks]")
