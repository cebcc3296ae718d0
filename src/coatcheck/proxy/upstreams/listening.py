"""Being told of changes by servers of 2026-07-28, which tell those who listen; older ones tell by themselves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Any

from mcp.shared.exceptions import MCPError

from coatcheck.client.connection import Connection, ConnectionLost
from coatcheck.client.wire import Json
from coatcheck.errors import CannotConnect
from coatcheck.proxy.upstreams.link import SupervisedLink

logger = logging.getLogger("coatcheck")
_PAUSE_SECONDS = 1.0


class Listening:
    """One stream for changes to the lists and to resources that someone subscribed to."""

    def __init__(self, link: SupervisedLink) -> None:
        self._link = link
        self._uris: dict[str, set[object]] = {}
        """What is subscribed to, and by whom."""
        self._stream: asyncio.Task[None] | None = None

    @property
    def has_subscriptions(self) -> bool:
        return bool(self._uris)

    def start(self) -> None:
        """Listen anew, on the connection there is: what was subscribed to on another is so no longer."""
        if self._stream:
            self._stream.cancel()
        self._stream = asyncio.create_task(self._listen(list(self._uris)))

    async def close(self) -> None:
        if self._stream:
            self._stream.cancel()
            await asyncio.gather(self._stream, return_exceptions=True)

    async def subscribe(self, connection: Connection, uri: str, who: object = None) -> None:
        """Be told of a resource. Whoever subscribes twice has subscribed once."""
        is_new = uri not in self._uris
        self._uris.setdefault(uri, set()).add(who)
        if is_new:
            await self._change(connection, "resources/subscribe", uri)

    async def unsubscribe(self, connection: Connection, uri: str, who: object = None) -> None:
        self._uris.get(uri, set[object]()).discard(who)
        if not self._uris.get(uri):
            self._uris.pop(uri, None)
            await self._change(connection, "resources/unsubscribe", uri)

    async def _change(self, connection: Connection, method: str, uri: str) -> None:
        if connection.is_modern:
            self.start()
        else:
            await connection.request(method, {"uri": uri})

    async def _listen(self, subscribed: Sequence[str]) -> None:
        while True:
            try:
                connection = await self._link.open()
                if not connection.is_modern:
                    for uri in subscribed:
                        await connection.request("resources/subscribe", {"uri": uri})
                    return
                wanted = _wanted(connection, self._uris)
                if not wanted:
                    return
                await connection.request("subscriptions/listen", {"notifications": wanted})
            except MCPError as error:
                logger.info("A server does not tell of changes: %s", error)
                return
            except (ConnectionLost, CannotConnect):
                pass
            await asyncio.sleep(_PAUSE_SECONDS)


def _wanted(connection: Connection, uris: Collection[str]) -> Json:
    """Return what to listen to: what the server says it tells of."""
    declared: Any = connection.session.server_capabilities
    if declared is None:
        return {}
    wanted: Json = {
        f"{name}ListChanged": True
        for name in ("tools", "prompts", "resources")
        if (had := getattr(declared, name)) is not None and had.list_changed
    }
    return {**wanted, **({"resourceSubscriptions": sorted(uris)} if uris else {})}
