"""What the proxy has for one client: connections of its own to all servers, and an ear for what they ask and tell."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST

from coatcheck.client.wire import Json, Params
from coatcheck.errors import CoatcheckError
from coatcheck.proxy.config import ServerEntry
from coatcheck.proxy.framing import unframed
from coatcheck.proxy.naming import Naming
from coatcheck.proxy.servers import Servers
from coatcheck.proxy.sessions.downstream import Downstream
from coatcheck.proxy.sessions.witness import Witness
from coatcheck.proxy.upstreams.catalog import CHANGES
from coatcheck.proxy.upstreams.dialing import Dialect
from coatcheck.proxy.upstreams.link import State
from coatcheck.proxy.upstreams.upstream import Upstream

logger = logging.getLogger("coatcheck")
_FORWARDED = (
    "notifications/message",
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/elicitation/complete",
)
_MOST_SPARE = 64


class Session:
    def __init__(
        self,
        key: str,
        declared: Mapping[str, Any],
        servers: Servers,
        naming: Naming,
        downstream: Downstream,
        witness: Witness | None,
        *,
        is_shared: bool,
        is_older: bool,
    ) -> None:
        """`witness`: who keeps what happens, for the meta tools. `is_shared`: callers here cannot be told apart.

        `is_older`: they speak a generation before 2026-07-28.
        """
        self.key, self.downstream, self.witness = key, downstream, witness
        self._declared, self._servers, self._naming = declared, servers, naming
        self._is_shared, self.is_older = is_shared, is_older
        self._upstreams: dict[str, Upstream] = {}
        self._spare: dict[str, list[Upstream]] = {}
        """Further connections to a server, for calls that must not be mixed up."""
        self._errands: set[asyncio.Task[Any]] = set()
        self._uses = 0
        self.used_at = asyncio.get_running_loop().time()
        servers.watchers.add(self)

    # Servers

    @property
    def is_busy(self) -> bool:
        """Whether something is under way in it."""
        return self._uses > 0 or any(upstream.calls for upstream in self._all())

    @property
    def is_subscribed(self) -> bool:
        """Whether its client waits for news of a resource."""
        return any(upstream.listening.has_subscriptions for upstream in self._all())

    @contextmanager
    def used(self) -> Generator[None]:
        """Note that a request is being served."""
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            self.used_at = asyncio.get_running_loop().time()

    def upstream(self, name: str) -> Upstream:
        """Return the connection to a server, connected or not.

        Raises:
            InvalidArgument: There is no such server.
        """
        if name not in self._upstreams:
            self._upstreams[name] = self._make(name)
        return self._upstreams[name]

    def upstreams(self) -> list[Upstream]:
        return [self.upstream(name) for name in self._servers]

    async def upstream_for_call(self, name: str) -> Upstream:
        """Return the connection for a new call: one of its own, where questions could reach another caller."""
        upstream = self.upstream(name)
        if not self._is_shared or not upstream.calls or upstream.tells_calls_apart:
            return upstream
        spare = self._spare.setdefault(name, [])
        idle = next((each for each in spare if not each.calls), None)
        if idle is None and len(spare) < _MOST_SPARE:
            idle = self._make(name)
            spare.append(idle)
        return idle or upstream

    def server_added(self, entry: ServerEntry) -> None:
        if self.witness:
            self.witness.server_added(entry)
        self._tell_of_changes()

    def server_removed(self, name: str) -> None:
        gone = [*self._spare.pop(name, ()), *filter(None, [self._upstreams.pop(name, None)])]
        if self.witness:
            self.witness.server_removed(name)
        for upstream in gone:
            self.run(upstream.close())
        self._tell_of_changes()

    async def close(self) -> None:
        self._servers.watchers.discard(self)
        await asyncio.gather(*(upstream.close() for upstream in self._all()))
        if self.witness:
            await self.witness.close()
        for errand in self._errands:
            errand.cancel()
        await asyncio.gather(*self._errands, return_exceptions=True)

    # What servers ask and tell

    async def asked(self, upstream: Upstream, method: str, params: Json, about: str | None) -> Json:
        """Ask whoever made the call a question is of; of several that it may be of, the client is the same."""
        params, was_asked = unframed(params), False
        while (call := upstream.call_of(about)) is not None:
            was_asked = True
            try:
                return await call.ask(method, params)
            except asyncio.CancelledError:
                current = asyncio.current_task()
                if call.key in upstream.calls or (current and current.cancelling()):
                    raise
                if about is not None:
                    break
        if was_asked:
            raise MCPError(INVALID_REQUEST, "The call this was asked for has ended")
        if self.witness:
            return await self.witness.ask(upstream.name, method, params)
        return await self.downstream.ask(method, params)

    def notified(self, upstream: Upstream, method: str, params: Params) -> None:
        if upstream not in self._all():
            return
        if self.witness:
            self.witness.notified(upstream.name, method, params)
        if method not in _FORWARDED:
            return
        if method == "notifications/message" and not self.downstream.is_standing:
            self._log(upstream, params)
            return
        if method == "notifications/resources/updated" and params and isinstance(params.get("uri"), str):
            params = {**params, "uri": self._naming.uri(upstream.name, params["uri"])}
        self.run(self.downstream.notify(method, params))

    def said(self, upstream: Upstream, line: str) -> None:
        if self.witness:
            self.witness.said(upstream.name, line)
        logger.debug("%s: %s", upstream.name, line)

    def changed(self, upstream: Upstream, before: State, after: State) -> None:
        if upstream not in self._all():  # it was let go, and another may have its name
            return
        if self.witness:
            self.witness.changed(upstream, before, after)
        if after is State.CONNECTED and (upstream.has_connected or before is State.RECONNECTING):
            self._tell_of_changes()  # it was missing from the lists, or may be another by now

    def _tell_of_changes(self) -> None:
        for method in CHANGES:
            self.run(self.downstream.notify(method, None))

    def _log(self, upstream: Upstream, params: Params) -> None:
        """Pass a log message on with the calls under way: a client of 2026-07-28 wants it there or not at all."""
        if self._is_shared and len(upstream.calls) > 1:
            return  # it may be about anyone's
        for call in upstream.calls.values():
            if call.on_notice:
                call.on_notice("notifications/message", params)

    # In the background

    def run(self, errand: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(_quietly(errand))
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    def _make(self, name: str) -> Upstream:
        entry = self._servers.get(name)
        dialect = Dialect(self.is_older, self._servers.learned, name, entry.protocol)
        return Upstream(entry, self._declared, dialect, self)

    def _all(self) -> Iterator[Upstream]:
        yield from self._upstreams.values()
        for spare in self._spare.values():
            yield from spare


async def _quietly(errand: Coroutine[Any, Any, object]) -> None:
    try:
        await errand
    except (CoatcheckError, MCPError) as error:
        logger.info("Something could not be passed on: %s", error)
    except Exception:
        logger.exception("Something could not be passed on")
