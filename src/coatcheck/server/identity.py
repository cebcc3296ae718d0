"""Who a request comes from, as the owner of tasks."""

from __future__ import annotations

import hashlib
from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.mcpserver import MCPServer, authenticated_principal
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from coatcheck.server.hook import RequestContext

_LONGEST = 256


class Identity:
    """Owners are principals; failing that, sessions; failing that, whoever has a task's id owns it."""

    def __init__(self, *, binds_sessions: bool = True) -> None:
        self._binds_sessions = binds_sessions

    def owner_of(self, ctx: RequestContext) -> str | None:
        """Return the authenticated principal (client, issuer and subject), or the session, or None."""
        principal = authenticated_principal(ctx)
        if principal is None:
            session = _session_of(ctx) if self._binds_sessions else None
            return None if session is None else f"session:{_digest(session)}"
        is_usable = len(principal) <= _LONGEST and principal.isprintable()
        return principal if is_usable else f"sha256:{_digest(principal)}"

    def tells_apart(self, ctx: RequestContext) -> bool:
        """Whether the caller can be shown all its tasks, because none of them can be anyone else's.

        A connection without HTTP is the only one its process serves.
        """
        return ctx.request is None or self.owner_of(ctx) is not None

    def will_tell_apart(self, ctx: RequestContext, server: MCPServer[Any]) -> bool:
        """The same of a caller that says hello: its session begins with the answer."""
        begins_session = self._binds_sessions and not _is_stateless(server)
        return begins_session or self.tells_apart(ctx)

    def will_bind_to_session(self, ctx: RequestContext, server: MCPServer[Any]) -> bool:
        """Whether what a caller that says hello makes will be for its session only."""
        has_session = ctx.request is not None and not _is_stateless(server)
        return self._binds_sessions and has_session and authenticated_principal(ctx) is None


def is_anonymous() -> bool:
    """Whether the request that is being served has no principal."""
    return get_access_token() is None


def _session_of(ctx: RequestContext) -> str | None:
    """Return the session's id: on the older HTTP transport it is part of the address."""
    # Who did not say hello has no session, whatever its headers say.
    is_in_session = ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS and ctx.session.client_params is not None
    if ctx.request is None or not is_in_session:
        return None
    return ctx.request.headers.get(MCP_SESSION_ID_HEADER) or ctx.request.query_params.get("session_id")


def _digest(secret: str) -> str:
    """A session's id opens the session, so it is not what is kept."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _is_stateless(server: MCPServer[Any]) -> bool:
    try:
        return server.session_manager.stateless
    except RuntimeError:  # it was never asked for an HTTP application
        return False
