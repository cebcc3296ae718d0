"""What an author or an operator may say of access, for a whole server."""

from __future__ import annotations

from dataclasses import dataclass

from coatcheck.server.access.principal import ROLES
from coatcheck.server.access.rates import RateWish
from coatcheck.server.access.rules import Authority


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may do what, how often, and whether it is written down."""

    authorize: Authority | None = None
    """Who may use tools, resources and prompts that have no rule of their own; None: everyone."""
    rate: RateWish | None = None
    """How often all tools together may be called, beside the rates of each."""
    roles: str = ROLES
    """The claim of a token with its caller's roles, as `realm_access.roles`."""
    audit: bool = False
    """Whether what callers do to tasks is logged, to `coatcheck.audit`."""
