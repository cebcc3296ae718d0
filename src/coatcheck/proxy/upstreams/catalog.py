"""What an upstream has beside tools: resources, templates and prompts, asked for once and again when they change."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, cast

from mcp_types import ServerCapabilities

from coatcheck.client.connection import Connection
from coatcheck.client.wire import Json

_MOST_PAGES = 1000


class Kind(Enum):
    """The method that lists it, and the word for it in the answer."""

    RESOURCES = ("resources/list", "resources")
    TEMPLATES = ("resources/templates/list", "resourceTemplates")
    PROMPTS = ("prompts/list", "prompts")

    def is_had_by(self, declared: ServerCapabilities | None) -> bool:
        if declared is None:
            return False
        return (declared.prompts if self is Kind.PROMPTS else declared.resources) is not None


CHANGES: dict[str, Sequence[Kind]] = {
    "notifications/resources/list_changed": (Kind.RESOURCES, Kind.TEMPLATES),
    "notifications/prompts/list_changed": (Kind.PROMPTS,),
    "notifications/tools/list_changed": (),
}


async def list_all(connection: Connection, kind: Kind) -> list[Json]:
    """Return all there is of a kind, page by page."""
    method, word = kind.value
    found: list[Json] = []
    if not kind.is_had_by(connection.session.server_capabilities):
        return found
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await connection.request(method, {} if cursor is None else {"cursor": cursor})
        items: Any = page.get(word)
        if isinstance(items, list):
            found += [cast("Json", item) for item in cast("list[Any]", items) if isinstance(item, dict)]
        following = page.get("nextCursor")
        if not isinstance(following, str) or following == cursor:
            break
        cursor = following
    return found
