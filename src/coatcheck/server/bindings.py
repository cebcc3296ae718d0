"""The methods of tasks: which generations have them, and who answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mcp.server.extension import MethodBinding

from coatcheck.server.calls.caller import HANDSHAKE, MODERN
from coatcheck.server.hook import RequestContext
from coatcheck.server.params import ListParams, TaskParams, UpdateParams
from coatcheck.server.v2025.methods import Methods as OlderMethods
from coatcheck.server.v2026.methods import Methods as NewerMethods

Method = Callable[[RequestContext, TaskParams], Awaitable[dict[str, Any]]]


def bindings(older: OlderMethods, newer: NewerMethods) -> Sequence[MethodBinding]:
    both = HANDSHAKE | MODERN
    return (
        MethodBinding("tasks/get", TaskParams, _by_generation(older.get, newer.get), both),
        MethodBinding("tasks/cancel", TaskParams, _by_generation(older.cancel, newer.cancel), both),
        MethodBinding("tasks/update", UpdateParams, newer.update, MODERN),
        MethodBinding("tasks/result", TaskParams, older.result, HANDSHAKE),
        MethodBinding("tasks/list", ListParams, older.list, HANDSHAKE),
    )


def _by_generation(older: Method, newer: Method) -> Method:
    async def method(ctx: RequestContext, params: TaskParams) -> dict[str, Any]:
        return await (newer if ctx.protocol_version in MODERN else older)(ctx, params)

    return method
