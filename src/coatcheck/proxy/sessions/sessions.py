"""All sessions of this process: found by who calls, closed when nobody has called for long."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp_types import ClientCapabilities
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from coatcheck.payload import canonical, encode
from coatcheck.proxy.naming import Naming
from coatcheck.proxy.servers import Servers
from coatcheck.proxy.sessions.downstream import Downstream
from coatcheck.proxy.sessions.news import News
from coatcheck.proxy.sessions.session import Session
from coatcheck.proxy.sessions.witness import Witness
from coatcheck.server.hook import RequestContext

IDLE_SECONDS = 1800.0
_LOOKS_PER_LIFE = 10
_WHEN_SUBSCRIBED = 48
"""How much longer a session lives whose client may be listening: nobody says so when it is gone."""
_MIRRORED = {"elicitation", "sampling", "roots"}

MakeWitness = Callable[[str], Awaitable[Witness]]
"""Makes the witness of a session, given its key."""


class Sessions:
    def __init__(
        self,
        servers: Servers,
        naming: Naming,
        news: News,
        owner_of: Callable[[RequestContext], str | None],
        make_witness: MakeWitness | None = None,
        *,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._servers, self._naming, self._news, self._owner_of = servers, naming, news, owner_of
        self._make_witness, self._idle_seconds = make_witness, idle_seconds
        self._sessions: dict[str, Session] = {}
        self._making = asyncio.Lock()
        self._reaping: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    async def of(self, ctx: RequestContext) -> Session:
        """Return the session of whoever sent a request."""
        declared = mirrored(ctx.session.client_capabilities)
        owner = self._owner_of(ctx)
        # Who calls by HTTP in 2026-07-28 and says nothing of itself may be anyone.
        is_older = ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS
        is_shared = owner is None and ctx.request is not None and not is_older
        key = session_key(owner, declared, is_older=is_older)
        session = await self.get(key, declared, is_shared=is_shared, is_older=is_older)
        session.downstream.seen(ctx, owner)
        return session

    def known(self, key: str) -> Session | None:
        """Return a session that is there."""
        session = self._sessions.get(key)
        if session:
            session.used_at = asyncio.get_running_loop().time()
        return session

    async def get(
        self, key: str, declared: Mapping[str, Any], *, is_shared: bool = True, is_older: bool = False
    ) -> Session:
        """Return a session by its key: the one there is, or a new one."""
        session = self._sessions.get(key)
        if session is None:
            async with self._making:
                session = self._sessions.get(key) or await self._make(key, declared, is_shared, is_older)
        session.used_at = asyncio.get_running_loop().time()
        return session

    async def close(self) -> None:
        if self._reaping:
            self._reaping.cancel()
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(session.close() for session in sessions))

    async def _make(self, key: str, declared: Mapping[str, Any], is_shared: bool, is_older: bool) -> Session:
        witness: Witness | None = None
        if self._make_witness:
            declared = {**_EVERYTHING, **declared}  # what the client cannot be asked, its model answers with a tool
            witness = await self._make_witness(key)
            is_older = True  # and can be asked in the middle of a call, as older servers do
        downstream = Downstream(self._news)
        session = Session(
            key,
            declared,
            self._servers,
            self._naming,
            downstream,
            witness,
            is_shared=is_shared,
            is_older=is_older,
        )
        self._sessions[key] = session
        if self._reaping is None:
            self._reaping = asyncio.create_task(self._reap())
        return session

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(self._idle_seconds / _LOOKS_PER_LIFE)
            for session in [each for each in self._sessions.values() if self._is_over(each)]:
                del self._sessions[session.key]
                await session.close()

    def _is_over(self, session: Session) -> bool:
        patience = self._idle_seconds * (_WHEN_SUBSCRIBED if session.is_subscribed else 1)
        return not session.is_busy and session.used_at < asyncio.get_running_loop().time() - patience


_EVERYTHING: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}}


def session_key(owner: str | None, declared: Mapping[str, Any], *, is_older: bool) -> str:
    """Return the key of a caller: programs that can do different things do not share connections."""
    told = hashlib.sha256(canonical(encode([owner, dict(declared), is_older])))
    return told.hexdigest()[:32]


def mirrored(capabilities: ClientCapabilities | None) -> dict[str, Any]:
    """Return what servers are told of the client behind the proxy."""
    if capabilities is None:
        return {}
    return capabilities.model_dump(by_alias=True, mode="json", exclude_none=True, include=_MIRRORED)
