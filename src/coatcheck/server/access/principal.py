"""Who calls, as far as its token says, for rules to judge by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, principal_components

ROLES = "roles"
"""Where roles are found among the claims of a token, if nobody says."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls. Of one without a token nothing is known."""

    client: str | None = None
    issuer: str | None = None
    subject: str | None = None
    scopes: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """All the token says, as far as what verified it passes that on."""

    @property
    def is_anonymous(self) -> bool:
        return self.client is None


NOBODY = Principal()


def current_principal(roles: str = ROLES) -> Principal:
    """Return who sent the request that is being served. `roles`: the claim with its roles, as `realm_access.roles`."""
    token = get_access_token()
    return NOBODY if token is None else principal_of(token, roles)


def principal_of(token: AccessToken, roles: str = ROLES) -> Principal:
    client, issuer, subject = principal_components(token)
    claims = token.claims or {}
    return Principal(client, issuer, subject, frozenset(token.scopes), _roles(claims, roles), claims)


def _roles(claims: Mapping[str, Any], path: str) -> frozenset[str]:
    """Return what a claim lists. A name with dots is looked for as it is, then as a way into claims of claims."""
    found: Any = claims.get(path)
    if found is None:
        found = claims
        for name in path.split("."):
            found = cast("Mapping[str, Any]", found).get(name) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        return frozenset(found.split())
    listed = cast("list[Any]", found) if isinstance(found, list) else []
    return frozenset(item for item in listed if isinstance(item, str))
