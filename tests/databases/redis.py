"""A Redis of our own, from a wheel that brings the server."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.databases.processes import DatabaseProcess, free_port

_DURABLE = ("--appendonly", "yes", "--appendfsync", "everysec")


class Redis:
    """One server; `url` names a part of it that nobody else uses."""

    def __init__(self, *options: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="coatcheck-redis-"))
        where = ("--bind", "127.0.0.1", "--port", str(port := free_port()), "--dir", str(self._folder), "--save", "")
        server = Path(sys.executable).with_name("redis-server")
        self.process = DatabaseProcess([server, *where, *_DURABLE, *options], port)
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
