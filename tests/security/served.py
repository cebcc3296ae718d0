"""`coatcheck serve` in a process of its own, logging all it can, and an issuer of tokens for its callers."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.access.issuer import Issuer, an_issuer
from tests.processes import ServerProcess, free_port, running

ROOT = Path(__file__).parents[2]


class Served:
    """A server: where it is, what it logs, and who vouches for its callers."""

    def __init__(self, process: ServerProcess, issuer: Issuer) -> None:
        self._process, self.issuer = process, issuer
        self.port = process.port
        self.url = f"http://127.0.0.1:{process.port}/mcp"

    def token(self, client: str | None = "app", user: str | None = "ann", **claims: Any) -> str:
        """Return a good token."""
        said: dict[str, Any] = {"scope": "books", **claims}
        return self.issuer.token(client_id=client, sub=user, **said)

    def logs(self) -> str:
        return self._process.words()


@contextmanager
def serving(module: str, folder: Path) -> Generator[Served]:
    """Serve `private` or `anyones`."""
    with an_issuer() as issuer:
        port = free_port()
        store = f"sqlite:///{folder}/tasks.db"
        words = ("serve", f"tests.security.{module}", "--http", f"127.0.0.1:{port}", "--store", store)
        more = {"PYTHONPATH": str(ROOT), "SECURITY_ISSUER": issuer.name, "NO_COLOR": "1"}
        known = {name: "" for name in os.environ if name.startswith("COATCHECK_")}
        command = (sys.executable, "-m", "coatcheck", *words, "--log-level", "debug")
        with running(command, port, {**known, **more}) as process:
            yield Served(process, issuer)
