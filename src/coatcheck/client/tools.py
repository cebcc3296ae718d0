"""What a server says of its tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from mcp.shared.inbound import find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map

from coatcheck.client.connection import Connection
from coatcheck.client.wire import Json
from coatcheck.dialects.words import TASK_SUPPORT
from coatcheck.errors import ProtocolViolation

_MOST_PAGES = 1000


class ToolInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str | None = None
    description: str | None = None
    input_schema: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    output_schema: Mapping[str, Any] | None = None
    task_support: str = "unknown"
    """required, optional or forbidden; unknown: the server decides with each call and does not say."""
    is_idempotent: bool = False
    """Whether it may be called again without harm, if one can believe the server."""
    headers: Mapping[tuple[str, ...], str] = msgspec.field(default_factory=dict[tuple[str, ...], str])
    """Which arguments are repeated in headers of HTTP."""
    raw: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """As the server says it."""

    def headers_for(self, arguments: Mapping[str, Any]) -> Mapping[str, str]:
        return mcp_param_headers(dict(self.headers), arguments) if self.headers else {}


async def list_tools(connection: Connection) -> dict[str, ToolInfo]:
    """Return all tools of a server, by name."""
    found: dict[str, ToolInfo] = {}
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await connection.request("tools/list", {} if cursor is None else {"cursor": cursor})
        tools: Any = page.get("tools")
        if not isinstance(tools, list):
            raise ProtocolViolation("The server answered tools/list with no list of tools")
        for tool in cast("Sequence[Any]", tools):
            if info := _info(tool, connection):
                found[info.name] = info
        following = page.get("nextCursor")
        if not isinstance(following, str) or following == cursor:
            break
        cursor = following
    return found


def _info(raw: Any, connection: Connection) -> ToolInfo | None:
    tool = cast("Json", raw) if isinstance(raw, dict) else {}
    if not isinstance(name := tool.get("name"), str):
        return None
    schema = _object(tool, "inputSchema")
    if connection.is_modern and find_invalid_x_mcp_header(schema):
        return None  # such tools must not be used
    hints = _object(tool, "annotations")
    title, description = tool.get("title"), tool.get("description")
    return ToolInfo(
        name=name,
        title=title if isinstance(title, str) else None,
        description=description if isinstance(description, str) else None,
        input_schema=schema,
        output_schema=_object(tool, "outputSchema") or None,
        task_support=_task_support(tool, connection),
        is_idempotent=hints.get("idempotentHint") is True or hints.get("readOnlyHint") is True,
        headers=x_mcp_header_map(schema) if connection.is_modern else {},
        raw=tool,
    )


def _task_support(tool: Json, connection: Connection) -> str:
    if not connection.has_tasks:
        return "forbidden"
    if connection.is_modern:
        said = _object(tool, "_meta").get(TASK_SUPPORT, "unknown")
    else:
        said = _object(tool, "execution").get("taskSupport", "forbidden")
    return said if said in ("required", "optional", "forbidden") else "unknown"


def _object(raw: Json, name: str) -> Json:
    value = raw.get(name)
    return cast("Json", value) if isinstance(value, dict) else {}
