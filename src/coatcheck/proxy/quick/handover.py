"""A call that was begun on the shorter way and has to go on on the longer one."""

from __future__ import annotations

import contextvars

from coatcheck.proxy.tasking import Incoming
from coatcheck.proxy.work import RowCall

_begun: contextvars.ContextVar[RowCall | None] = contextvars.ContextVar("coatcheck_begun_call", default=None)


def hand_over(call: RowCall) -> None:
    """Leave a call to whoever serves this request next."""
    _begun.set(call)


def take_over(incoming: Incoming) -> RowCall | None:
    """Return the call that was begun for this request, if there was one."""
    call = _begun.get()
    if call is None or (call.upstream.name, call.tool) != (incoming.server, incoming.tool):
        return None
    _begun.set(None)
    return call
