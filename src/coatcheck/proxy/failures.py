"""What goes wrong with upstreams, as errors of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from mcp.shared.exceptions import MCPError

from coatcheck.client.connection import ConnectionLost
from coatcheck.client.wire import Json
from coatcheck.dialects.words import INTERNAL_ERROR, REQUEST_CANCELLED, STATE_UNKNOWN, UNREACHABLE
from coatcheck.errors import (
    CannotConnect,
    CoatcheckError,
    Interrupted,
    NotAnswered,
    TaskCancelled,
    TaskLost,
    ToolFailed,
)
from coatcheck.proxy.framing import unframed


class Unreachable(CannotConnect):
    """A server is not there just now. `when`: how it is being tried to reach it."""

    def __init__(self, server: str, reason: str, when: Mapping[str, Any]) -> None:
        super().__init__(f"Server {server!r} cannot be reached: {reason}")
        self.server, self.when = server, when


def as_mcp_error(error: BaseException, server: str) -> MCPError:
    """Return an error of a call as its caller gets it: what the upstream itself said, word for word."""
    if said := _said(error):
        return MCPError(said.code, said.message, _unframed(said.error.data))
    match error:
        case Unreachable():
            return MCPError(UNREACHABLE, str(error), {"server": server, **error.when})
        case CannotConnect():
            return MCPError(UNREACHABLE, f"Server {server!r} cannot be reached: {error}", {"server": server})
        case ToolFailed() | NotAnswered():
            return MCPError(INTERNAL_ERROR if error.code is None else error.code, error.message, _unframed(error.data))
        case Interrupted() | TaskLost():
            return state_unknown(str(error), server)
        case TaskCancelled():
            return MCPError(REQUEST_CANCELLED, str(error))
        case CoatcheckError():
            return MCPError(INTERNAL_ERROR, str(error))
        case _:
            return MCPError(INTERNAL_ERROR, f"The call of server {server!r} failed: {error}")


def state_unknown(message: str, server: str) -> MCPError:
    return MCPError(STATE_UNKNOWN, message, {"server": server, "stateUnknown": True})


def _unframed(data: object) -> Any:
    return (unframed(cast("Json", data)) or None) if isinstance(data, dict) else data


def _said(error: BaseException | None) -> MCPError | None:
    """Return the error of the protocol that an error of ours was made of."""
    while error is not None and not isinstance(error, MCPError):
        if isinstance(error, ToolFailed | TaskLost | CannotConnect | Interrupted | ConnectionLost):
            return None
        error = error.__cause__
    return error
