"""What an author or an operator may set of a server's tasks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import SubscriptionBus

from coatcheck.errors import InvalidArgument
from coatcheck.executors import Jobs
from coatcheck.policy import Duration, Policy, duration
from coatcheck.server.access.settings import Access

STORE_VARIABLE = "COATCHECK_STORE"
CONCURRENCY_VARIABLE = "COATCHECK_CONCURRENCY"
DOCKET_VARIABLE = "COATCHECK_DOCKET"
LENIENT_VARIABLE = "COATCHECK_LENIENT_HEADERS"
AUDIT_VARIABLE = "COATCHECK_AUDIT"

Lifespan = Callable[[MCPServer[Any]], AbstractAsyncContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Settings:
    """The environment, which is the operator's, has the last word."""

    store: str | None = None
    """None: a file named after the server, in the user's state folder."""
    concurrency: int = 10_000
    """How many tasks run in this process at once; 0: none, they are left to other processes on the same store."""
    policy: Policy = field(default_factory=Policy)
    docket: str | None = None
    """The URL of a Redis, where Docket carries tasks to those who run them; None: workers find them in the store."""
    strict: bool = False
    """Whether a host that is frozen between requests is refused, rather than warned of."""
    key: str | None = None
    strict_headers: bool = True
    """Whether a client must repeat a task's id in the Mcp-Name header, as the protocol says. Some do not."""
    grace: Duration = 10.0
    """How long running tasks have to finish when the server stops."""
    subscriptions: SubscriptionBus | None = None
    """The server's, for tools that tell of changes to what it offers."""
    heartbeat: Duration = 15.0
    """How long the caller of a slow tool is left without a sign of life."""
    binds_sessions: bool = True
    """Whether tasks of callers without a principal are for their session only."""
    has_ticket_tools: bool = True
    """Whether clients without tasks get tickets, and tools for them."""
    access: Access = Access()
    """Who may do what, and how often."""
    lifespan: Lifespan | None = None
    """The author's own; its state is what tool bodies find in their `Context`."""
    jobs: list[Jobs] = field(default_factory=list[Jobs])
    """Those that other engines do for tasks of this server."""

    def __post_init__(self) -> None:
        if self.concurrency < 0:
            raise InvalidArgument(f"concurrency must be 0 or more, but it is {self.concurrency}.")
        duration("grace", self.grace)
        duration("heartbeat", self.heartbeat)

    def url(self, server: str) -> str:
        return os.environ.get(STORE_VARIABLE) or self.store or default_store(server)

    def needs_name(self) -> bool:
        return self.strict_headers and not os.environ.get(LENIENT_VARIABLE)

    def audits(self) -> bool:
        return self.access.audit or bool(os.environ.get(AUDIT_VARIABLE))

    def courier(self) -> str | None:
        """Return Docket's URL. The variable has the last word, also if it is empty."""
        return os.environ.get(DOCKET_VARIABLE, self.docket) or None

    def slots(self) -> int:
        given = os.environ.get(CONCURRENCY_VARIABLE)
        if given is None:
            return self.concurrency
        if not given.isdecimal():
            raise InvalidArgument(f"{CONCURRENCY_VARIABLE} must be a number of tasks, but it is {given!r}.")
        return int(given)


def default_store(server: str) -> str:
    """Return where a server's tasks are kept if nobody says: found again by the same name after a restart."""
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    folder = Path(home).expanduser() / "coatcheck"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", server).strip("-.") or "server"
    return f"sqlite:///{folder / name}.db"
