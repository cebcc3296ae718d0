"""What a caller knows of tasks."""

from __future__ import annotations

import weakref
from enum import Enum, auto

from mcp_types import CallToolRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from coatcheck.dialects import v2025, v2026
from coatcheck.server.hook import RequestContext

MODERN = frozenset(MODERN_PROTOCOL_VERSIONS)
HANDSHAKE = frozenset({v2025.VERSION})


class Caller(Enum):
    """What a caller said about tasks in this very call; what it said earlier does not count."""

    KNOWS_NO_TASKS = auto()
    ACCEPTS_TASKS = auto()
    """Declared the extension of 2026-07-28: the server decides."""
    ASKS_FOR_TASK = auto()
    """Sent `task` with the call, as in 2025-11-25: the client decided."""


def caller_of(ctx: RequestContext, params: CallToolRequestParams) -> Caller:
    if ctx.protocol_version in MODERN:
        return Caller.ACCEPTS_TASKS if _declares_extension(ctx) else Caller.KNOWS_NO_TASKS
    asks = ctx.protocol_version in HANDSHAKE and params.task is not None
    return Caller.ASKS_FOR_TASK if asks else Caller.KNOWS_NO_TASKS


def _declares_extension(ctx: RequestContext) -> bool:
    capabilities = ctx.session.client_capabilities
    declared = capabilities.extensions if capabilities else None
    return bool(declared) and v2026.EXTENSION in declared


class Acquaintances:
    """Which clients have tasks. In 2025-11-25 they need not say so before they use them."""

    def __init__(self) -> None:
        self._seen: dict[int, weakref.ref[object]] = {}

    def saw_use(self, ctx: RequestContext) -> None:
        """Remember, as long as its connection lives, that a client uses tasks."""
        client = ctx.session.client_params
        if client is not None and id(client) not in self._seen:
            key = id(client)
            self._seen[key] = weakref.ref(client, lambda _: self._seen.pop(key, None))

    def has_tasks(self, ctx: RequestContext) -> bool:
        if ctx.protocol_version in MODERN:
            return _declares_extension(ctx)
        if ctx.protocol_version not in HANDSHAKE:
            return False
        capabilities = ctx.session.client_capabilities
        return (capabilities is not None and capabilities.tasks is not None) or id(
            ctx.session.client_params
        ) in self._seen
