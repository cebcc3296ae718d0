"""Who a request comes from, as the owner of tasks."""

from __future__ import annotations

import hashlib
from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import authenticated_principal

_LONGEST = 256


def owner_of(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Return the authenticated principal (client, issuer and subject), or None: whoever has a task's id owns it."""
    principal = authenticated_principal(ctx)
    if principal is None or (len(principal) <= _LONGEST and principal.isprintable()):
        return principal
    return f"sha256:{hashlib.sha256(principal.encode('utf-8', 'surrogatepass')).hexdigest()}"


def is_anonymous() -> bool:
    """Whether the request that is being served has no principal."""
    return get_access_token() is None
