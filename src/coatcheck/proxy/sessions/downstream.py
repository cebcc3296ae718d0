"""The client of a session, as far as it can be told and asked outside of its own requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import UNSET, UnsetType

from coatcheck.client.wire import Json
from coatcheck.dialects.words import METHOD_NOT_FOUND
from coatcheck.proxy.sessions.news import News
from coatcheck.server.hook import RequestContext
from coatcheck.server.waiting.notifications import RawNotification
from coatcheck.server.waiting.peer import Peer, Unreachable, can_answer

_LISTS: dict[str, ServerEvent] = {
    "notifications/tools/list_changed": ToolsListChanged(),
    "notifications/prompts/list_changed": PromptsListChanged(),
    "notifications/resources/list_changed": ResourcesListChanged(),
}
_UPDATED = "notifications/resources/updated"


class Downstream:
    def __init__(self, news: News) -> None:
        """`news`: where clients of 2026-07-28 listen."""
        self._news = news
        self._owner: str | UnsetType | None = UNSET
        self._last: RequestContext | None = None

    def seen(self, ctx: RequestContext, owner: str | None) -> None:
        """Remember whose it is; and a client that has a standing connection."""
        self._owner = owner
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS and ctx.session.client_params is not None:
            self._last = ctx

    @property
    def is_standing(self) -> bool:
        """Whether it can be told of something outside of its requests, without having asked for it."""
        return self._last is not None

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Pass on what a server told of its own accord."""
        if self._last is not None:
            await _send(self._last.session, method, params)
        elif self._owner is UNSET:
            return  # nobody has come back since the proxy was started anew
        elif method in _LISTS:
            await self._news.tell(self._owner, _LISTS[method])
        elif method == _UPDATED and params:
            await self._news.tell(self._owner, ResourceUpdated(uri=params["uri"]))

    async def ask(self, method: str, params: Json) -> Json:
        """Ask what a server asks while it is not being called.

        Raises:
            MCPError: The client cannot be asked, or would not answer.
        """
        ctx = self._last
        if ctx is None or not can_answer(ctx.session.client_capabilities, method, params):
            raise MCPError(METHOD_NOT_FOUND, f"There is nobody to ask just now ({method})")
        try:
            return await Peer(ctx, knows_task=True).send(method, params)
        except Unreachable as error:
            raise MCPError(METHOD_NOT_FOUND, f"The client cannot be reached just now ({method})") from error


async def _send(session: ServerSession, method: str, params: Mapping[str, Any] | None) -> None:
    sent = RawNotification(method=method, params=None if params is None else dict(params))
    await session.send_notification(cast("Any", sent))
