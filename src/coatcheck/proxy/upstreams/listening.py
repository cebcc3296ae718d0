"""Being told of changes by servers of 2026-07-28, which tell those who listen; older ones tell by themselves."""

from __future__ import annotations

import asyncio
import logging
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
        self._uris: set[str] = set()
        self._stream: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listen anew, on the connection there is."""
        if self._stream:
            self._stream.cancel()
        self._stream = asyncio.create_task(self._listen())

    async def close(self) -> None:
        if self._stream:
            self._stream.cancel()
            await asyncio.gather(self._stream, return_exceptions=True)

    async def subscribe(self, connection: Connection, uri: str) -> None:
        if connection.is_modern:
            self._uris.add(uri)
            self.start()
        else:
            await connection.request("resources/subscribe", {"uri": uri})

    async def unsubscribe(self, connection: Connection, uri: str) -> None:
        if connection.is_modern:
            self._uris.discard(uri)
            self.start()
        else:
            await connection.request("resources/unsubscribe", {"uri": uri})

    async def _listen(self) -> None:
        while True:
            try:
                connection = await self._link.open()
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


def _wanted(connection: Connection, uris: set[str]) -> Json:
    """Return what to listen to: what the server says it tells of."""
    declared: Any = connection.session.server_capabilities
    if not connection.is_modern or declared is None:
        return {}
    wanted: Json = {
        f"{name}ListChanged": True
        for name in ("tools", "prompts", "resources")
        if (had := getattr(declared, name)) is not None and had.list_changed
    }
    return {**wanted, **({"resourceSubscriptions": sorted(uris)} if uris else {})}
