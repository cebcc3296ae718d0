"""Who keeps what happens in a session, for a client that asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from coatcheck.client.wire import Json, Params
from coatcheck.proxy.config import ServerEntry
from coatcheck.proxy.upstreams.link import State
from coatcheck.proxy.upstreams.upstream import Upstream
from coatcheck.task import Task

About = Callable[[], str | None] | None


class Witness(Protocol):
    async def ask(self, server: str, method: str, params: Json, *, about: About = None) -> Json:
        """Hold a question until the client answers it.

        `about`: gives the task it is of, once that is known. None: nobody can tell which of the server's it is of.
        """
        ...

    def watch(self, task: Task) -> None:
        """Note how a task ends."""
        ...

    def notified(self, server: str, method: str, params: Params) -> None: ...

    def said(self, server: str, line: str) -> None: ...

    def changed(self, upstream: Upstream, before: State, after: State) -> None: ...

    def server_added(self, entry: ServerEntry) -> None: ...

    def server_removed(self, name: str) -> None: ...

    async def close(self) -> None: ...
