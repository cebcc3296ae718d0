"""The scripts that Redis runs for us: each is one operation, all or nothing, in one round trip."""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import Final

from coatcheck.stores.redis.connection import Command

_FOLDER = resources.files(__package__ or "") / "lua"


class Script:
    def __init__(self, *names: str, begins: str = "common") -> None:
        self.source = "\n".join((_FOLDER / f"{name}.lua").read_text("utf-8") for name in (begins, *names))
        self.digest = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()


OPEN: Final = Script("open")
INSERT: Final = Script("row", "insert", "index", "call")
REPLACE: Final = Script("row", "replace", "index", "tell", "call")
DELETE: Final = Script("delete", "tell", "call")
GET: Final = Script("get", begins="shown")
WATCH: Final = Script("watch", begins="shown")
WAITING: Final = Script("reading", "waiting")
PASS_ON: Final = Script("pass_on", "call")
LIST: Final = Script("reading", "list")
JOURNAL: Final = Script("journal")
OVERDUE: Final = Script("reading", "overdue")
_ALL = {
    script.digest: script
    for script in (OPEN, INSERT, REPLACE, DELETE, GET, WATCH, WAITING, PASS_ON, LIST, JOURNAL, OVERDUE)
}
LOADING: Final[tuple[Command, ...]] = tuple(("SCRIPT", "LOAD", script.source) for script in _ALL.values())
"""What makes a server know them all."""


def in_full(command: Command) -> Command:
    """Return a command that names its script as one that brings it along."""
    _, digest, *rest = command
    return "EVAL", _ALL[str(digest)].source, *rest
