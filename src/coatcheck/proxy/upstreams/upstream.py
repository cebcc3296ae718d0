"""One server, as one session has it: a connection of its own, what it offers, and the calls under way on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from mcp.shared.exceptions import MCPError
from mcp_types import Implementation

import coatcheck
from coatcheck.client.connection import Callbacks, Connection, ConnectionLost
from coatcheck.client.desk import Desk
from coatcheck.client.hearing import Hearing
from coatcheck.client.tools import ToolInfo
from coatcheck.client.wire import Json, Params
from coatcheck.dialects.seen import read_progress
from coatcheck.errors import CannotConnect, CoatcheckError
from coatcheck.proxy.config import ServerEntry
from coatcheck.proxy.failures import Unreachable, as_mcp_error
from coatcheck.proxy.upstreams.backoff import FOR_HTTP, FOR_PROCESSES
from coatcheck.proxy.upstreams.catalog import CHANGES, Kind, list_all
from coatcheck.proxy.upstreams.dialing import Dialect, dial
from coatcheck.proxy.upstreams.health import Health
from coatcheck.proxy.upstreams.link import State, SupervisedLink
from coatcheck.proxy.upstreams.listening import Listening
from coatcheck.task import Progress

_INFO = Implementation(name="coatcheck-proxy", version=coatcheck.__version__)


class Asked(Protocol):
    """A call under way, of which something may be asked."""

    key: str
    on_notice: Callable[[str, Params], object] | None

    async def ask(self, method: str, params: Json) -> Json: ...

    def progressed(self, progress: Progress, message: str | None) -> None: ...


class Ear(Protocol):
    """Who is asked and told what upstreams ask and tell."""

    async def asked(self, upstream: Upstream, method: str, params: Json, about: str | None) -> Json: ...

    def notified(self, upstream: Upstream, method: str, params: Params) -> None: ...

    def said(self, upstream: Upstream, line: str) -> None:
        """It wrote this to its stderr."""
        ...

    def changed(self, upstream: Upstream, before: State, after: State) -> None: ...


class Upstream:
    def __init__(self, entry: ServerEntry, declared: Mapping[str, Any], dialect: Dialect, ear: Ear) -> None:
        """Nothing is connected before it is needed. `declared`: the capabilities of the client behind it."""
        self.entry, self.name, self._ear = entry, entry.name, ear
        target = entry.target()
        callbacks = Callbacks(answer=partial(ear.asked, self), declared=declared)

        def make(hearing: Hearing, mode: str = "auto") -> Connection:
            return Connection(target, callbacks, _INFO, mode, hearing, partial(ear.said, self), is_direct=True)

        def link(make_any: Callable[[], Connection]) -> SupervisedLink:
            choose = partial(dial, lambda mode: make(self.desk.hearing, mode), dialect)
            backoff = FOR_PROCESSES if entry.is_process else FOR_HTTP
            self.link = SupervisedLink(make_any, choose, target.label, backoff, self._changed)
            return self.link

        self.link: SupervisedLink
        self.desk = Desk(make, link, push=True, passes_on=True)
        self.desk.hearing.overhears = self._overheard
        self.desk.hearing.ended = self.link.ended
        self.health = Health(self.probe)
        self.listening = Listening(self.link)
        self.calls: dict[str, Asked] = {}
        """Those under way, by their keys."""
        self.tasks: dict[str, Asked] = {}
        """Calls that the server made tasks of, by its ids."""
        self.has_connected = False
        self._lists: dict[Kind, asyncio.Task[list[Json]]] = {}

    @property
    def state(self) -> State:
        return self.link.state

    @property
    def capabilities(self) -> Json:
        """What the server says it has; nothing, as long as it was not asked."""
        connection = self.link.connection
        declared = connection.session.server_capabilities if connection else None
        return declared.model_dump(by_alias=True, mode="json", exclude_none=True) if declared else {}

    def describe(self) -> Json:
        """Return how the connection is doing."""
        link, connection = self.link, self.link.connection
        described: Json = {"state": link.state.value}
        if link.state is State.RECONNECTING:
            described |= {"attempt": link.attempt, "next_retry_ms": round(link.seconds_to_next_try * 1000)}
        if link.error:
            described["error"] = link.error
        if connection and link.state is State.CONNECTED:
            described |= {"protocol_version": connection.version, "has_tasks": connection.has_tasks}
        return {**described, "health": self.health.describe()}

    async def connect(self) -> Connection:
        """Return the connection, made if need be.

        Raises:
            Unreachable: There is none to be had just now.
        """
        try:
            return await self.link.ready()
        except CannotConnect as error:
            raise self.unreachable(str(error)) from error

    def unreachable(self, reason: str | None = None) -> Unreachable:
        retry = round(self.link.seconds_to_next_try * 1000)
        when = {"state": self.state.value, "attempt": self.link.attempt, "nextRetryMs": retry}
        said = reason or self.link.error or "it is being reconnected"
        if self.state is State.RECONNECTING:
            said = f"{said}; attempt {self.link.attempt} to reconnect is in {retry / 1000:.1f} s"
        return Unreachable(self.name, said, when)

    @property
    def tells_calls_apart(self) -> bool:
        """Whether a question says which call it is of. Before 2026-07-28 only those of tasks do."""
        connection = self.link.connection
        return connection is not None and connection.is_modern

    def call_of(self, about: str | None) -> Asked | None:
        """Return the call a question is of: the one it names, or else the one made last."""
        if about is not None and (found := self.tasks.get(about) or self.calls.get(about)):
            return found
        return next(reversed(self.calls.values()), None)

    async def tools(self) -> Mapping[str, ToolInfo]:
        await self.connect()
        return await self.desk.tools()

    async def items(self, kind: Kind) -> list[Json]:
        """Return all there is of a kind, as it was last heard of."""
        connection = await self.connect()
        listed = self._lists.get(kind)
        if listed is None or (listed.done() and (listed.cancelled() or listed.exception())):
            listed = self._lists[kind] = asyncio.create_task(list_all(connection, kind))
        try:
            return await asyncio.shield(listed)
        except ConnectionLost as error:
            raise self.unreachable(str(error)) from error

    async def request(self, method: str, params: Mapping[str, Any], name: str | None = None) -> Json:
        """Pass a request on, and return the answer as it is.

        Raises:
            MCPError: The server answered with an error, or is not there.
        """
        try:
            await self.connect()
            return await self.link.run(lambda connection: connection.request(method, params, name=name), is_urgent=True)
        except CoatcheckError as error:
            raise as_mcp_error(error, self.name) from error

    async def probe(self, timeout: float) -> None:
        """See whether the server answers.

        Raises:
            ConnectionLost: It does not.
        """
        connection = self.link.connection
        if self.state is State.CONNECTED and connection:
            try:
                await connection.request("tools/list", {}, timeout=timeout)
            except MCPError:
                return

    async def close(self) -> None:
        self.health.stop()
        await self.listening.close()
        for listed in self._lists.values():
            listed.cancel()
        await self.desk.close()

    def _changed(self, before: State, after: State) -> None:
        if after is State.CONNECTED:
            self._lists.clear()
            self.desk.hearing.tools_changed()
            self.health.start()
            self.listening.start()
        else:
            self.health.stop()
        self._ear.changed(self, before, after)
        if after is State.CONNECTED:
            self.has_connected = True

    def _overheard(self, method: str, params: Params) -> None:
        if method == "notifications/progress":
            self._progressed(params or {})
        for kind in CHANGES.get(method, ()):
            self._lists.pop(kind, None)
        self._ear.notified(self, method, params)

    def _progressed(self, params: Mapping[str, Any]) -> None:
        call, progress = self.calls.get(str(params.get("progressToken"))), read_progress(params)
        message = params.get("message")
        if call and progress:
            call.progressed(progress, message if isinstance(message, str) else None)
