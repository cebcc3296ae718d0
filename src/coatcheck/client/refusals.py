"""What a server's errors mean to its client."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from mcp.shared.exceptions import MCPError
from mcp_types import MISSING_REQUIRED_CLIENT_CAPABILITY

from coatcheck.dialects.words import INTERNAL_ERROR, INVALID_PARAMS
from coatcheck.errors import CoatcheckError, InvalidArgument, ServerError, TaskLost

_MISSING_CAPABILITY = (MISSING_REQUIRED_CLIENT_CAPABILITY, -32003)
"""The second is what the text of the extension said at first."""


@contextmanager
def of_task(task_id: str) -> Generator[None]:
    """Turn errors that answer a request about a task into our own."""
    try:
        yield
    except MCPError as error:
        is_missing = error.code == INTERNAL_ERROR and "not found" in error.message.lower()
        if is_missing or error.code == INVALID_PARAMS:
            reason = "the server does not know it; it has expired, or it was made by someone else"
            raise TaskLost(task_id, reason) from error
        raise _meant(error) from error


def of_call(error: MCPError, tool: str) -> CoatcheckError:
    """Return what an error means that answers a call."""
    if error.code == INVALID_PARAMS:
        return InvalidArgument(f"The server does not accept this call of {tool!r}: {error.message}")
    return _meant(error)


def _meant(error: MCPError) -> CoatcheckError:
    if error.code not in _MISSING_CAPABILITY:
        return ServerError(error.message, error.code, error.error.data)
    data = cast("Mapping[str, Any] | None", error.error.data)
    needed: Mapping[str, Any] = (data or {}).get("requiredCapabilities", {}) if isinstance(data, dict) else {}
    names = ", ".join(needed) or error.message
    return ServerError(f"the client lacks what this needs ({names}); give it the callbacks for it", error.code)
