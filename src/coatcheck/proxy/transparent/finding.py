"""Resources that are asked for without a prefix, as they stand in a tool's result."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mcp.shared.exceptions import MCPError

from coatcheck.errors import CoatcheckError
from coatcheck.proxy.upstreams.catalog import Kind
from coatcheck.proxy.upstreams.upstream import Upstream

_EXPRESSION = re.compile(r"\{[^}]*\}")


async def find_resource(upstreams: Iterable[Upstream], uri: str) -> tuple[str, str] | None:
    """Return the server that lists a resource, or has a template it fits; failing that, the only one with resources."""
    having: list[str] = []
    fitting: list[str] = []
    for upstream in upstreams:
        try:
            if any(item.get("uri") == uri for item in await upstream.items(Kind.RESOURCES)):
                return upstream.name, uri
            if await _has_template(upstream, uri):
                fitting.append(upstream.name)
            if upstream.capabilities.get("resources") is not None:
                having.append(upstream.name)
        except (CoatcheckError, MCPError):
            continue
    if fitting:
        return fitting[0], uri
    return (having[0], uri) if len(having) == 1 else None


async def _has_template(upstream: Upstream, uri: str) -> bool:
    for item in await upstream.items(Kind.TEMPLATES):
        template = item.get("uriTemplate")
        if isinstance(template, str) and _pattern(template).fullmatch(uri):
            return True
    return False


def _pattern(template: str) -> re.Pattern[str]:
    """Return what URIs of a template look like, roughly: any text in place of its expressions."""
    return re.compile(".+".join(re.escape(part) for part in _EXPRESSION.split(template)))
