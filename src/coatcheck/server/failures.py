"""Our errors as JSON-RPC errors: one place, so that every method refuses alike."""

from __future__ import annotations

import logging
import math
from collections.abc import Generator
from contextlib import contextmanager

from mcp.shared.exceptions import MCPError
from mcp_types import MISSING_REQUIRED_CLIENT_CAPABILITY

from coatcheck.dialects.v2026 import EXTENSION
from coatcheck.dialects.words import (
    FORBIDDEN,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    TOO_MANY,
    WireError,
)
from coatcheck.errors import (
    CoatcheckError,
    Forbidden,
    InvalidArgument,
    QuotaExceeded,
    StoreError,
    TaskNotFound,
    TooLarge,
    TooOften,
)
from coatcheck.payload import decode
from coatcheck.server.calls.caller import MODERN, Caller

logger = logging.getLogger("coatcheck")


class Stopping(CoatcheckError):
    """Whoever waits is sent away; the task goes on in another process, or in the next."""

    def __init__(self) -> None:
        super().__init__("The server stops; the task is kept, ask for its result again")


@contextmanager
def as_protocol_errors() -> Generator[None]:
    """Turn what the engine refuses into the error the caller gets."""
    try:
        yield
    except CoatcheckError as error:
        raise protocol_error(error) from error


def wrong_way(tool: str, caller: Caller, version: str) -> MCPError:
    """Return the error for a caller and a tool that have no way in common, as its generation has it."""
    if caller is Caller.ASKS_FOR_TASK:
        return MCPError(METHOD_NOT_FOUND, f"Tool {tool!r} does not run as a task; call it without `task`")
    if version not in MODERN:
        return MCPError(METHOD_NOT_FOUND, f"Tool {tool!r} runs as a task only; call it with `task`")
    return MCPError(
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"Tool {tool!r} runs as a task only, and the client did not declare {EXTENSION}",
        {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
    )


def raised(error: WireError) -> MCPError:
    """Return an error of a call as the SDK has it."""
    return MCPError(error.code, error.message, decode(error.data))


def protocol_error(error: CoatcheckError) -> MCPError:
    match error:
        case TaskNotFound():
            return MCPError(INVALID_PARAMS, NOT_FOUND)
        case Forbidden():
            return MCPError(FORBIDDEN, str(error))
        case TooOften():
            return MCPError(TOO_MANY, str(error), {"retryAfterMs": math.ceil(error.retry_after * 1000)})
        case QuotaExceeded():
            return MCPError(TOO_MANY, str(error), {"unfinished": error.quota})
        case StoreError():
            logger.error("The task store failed: %s", error)
            return MCPError(INTERNAL_ERROR, "The task store is not available just now; try again in a moment")
        case TooLarge():
            return MCPError(INVALID_PARAMS, str(error), {"bytes": error.size, "limit": error.limit})
        case InvalidArgument():
            return MCPError(INVALID_PARAMS, str(error))
        case _:
            return MCPError(INTERNAL_ERROR, str(error))
