"""The lists of all servers, put together. One that is not there just now is left out, and told of when it comes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from mcp.shared.exceptions import MCPError

from coatcheck.client.wire import Json
from coatcheck.errors import CoatcheckError
from coatcheck.proxy.access.guard import Guard
from coatcheck.proxy.naming import Naming
from coatcheck.proxy.sessions.session import Session
from coatcheck.proxy.upstreams.catalog import Kind
from coatcheck.proxy.upstreams.upstream import Upstream

logger = logging.getLogger("coatcheck")


class Lists:
    def __init__(self, naming: Naming, guard: Guard) -> None:
        self._naming, self._guard = naming, guard

    async def servers(self, session: Session) -> list[Upstream]:
        """Return those the caller may use; it is not for the others to be asked, or started."""
        return [upstream for upstream in session.upstreams() if await self._guard.shows(upstream.name)]

    async def tools(self, session: Session) -> list[Json]:
        async def of(upstream: Upstream) -> list[Json]:
            found = await upstream.tools()
            return [
                self._renamed(upstream, dict(tool.raw))
                for name, tool in found.items()
                if await self._guard.shows_tool(upstream.name, name)
            ]

        return await self._gathered(session, of)

    async def prompts(self, session: Session) -> list[Json]:
        async def of(upstream: Upstream) -> list[Json]:
            return [self._renamed(upstream, prompt) for prompt in await upstream.items(Kind.PROMPTS)]

        return await self._gathered(session, of)

    async def resources(self, session: Session) -> list[Json]:
        async def of(upstream: Upstream) -> list[Json]:
            found = await upstream.items(Kind.RESOURCES)
            return [self._renamed(upstream, self.with_uri(upstream.name, resource)) for resource in found]

        return await self._gathered(session, of)

    async def templates(self, session: Session) -> list[Json]:
        async def of(upstream: Upstream) -> list[Json]:
            found = await upstream.items(Kind.TEMPLATES)
            return [self._renamed(upstream, self.with_uri(upstream.name, each, "uriTemplate")) for each in found]

        return await self._gathered(session, of)

    def with_uri(self, server: str, item: Json, field: str = "uri") -> Json:
        uri = item.get(field)
        return {**item, field: self._naming.uri(server, uri)} if isinstance(uri, str) else item

    def _renamed(self, upstream: Upstream, item: Json) -> Json:
        name = item.get("name")
        return {**item, "name": self._naming.name(upstream.name, name)} if isinstance(name, str) else item

    async def _gathered(self, session: Session, of: Callable[[Upstream], Awaitable[list[Json]]]) -> list[Json]:
        gathered = await asyncio.gather(*(_softly(of, upstream) for upstream in await self.servers(session)))
        return [item for found in gathered for item in found]


async def _softly(of: Callable[[Upstream], Awaitable[list[Json]]], upstream: Upstream) -> list[Json]:
    try:
        return await of(upstream)
    except (CoatcheckError, MCPError) as error:
        logger.warning("What %s has is left out: %s", upstream.name, error)
        return []
