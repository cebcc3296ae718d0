"""Our errors as JSON-RPC errors: one place, so that every method refuses alike."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

from mcp.shared.exceptions import MCPError
from mcp_types import MISSING_REQUIRED_CLIENT_CAPABILITY

from coatcheck.dialects.v2026 import EXTENSION, INTERNAL_ERROR, INVALID_PARAMS, NOT_FOUND
from coatcheck.errors import CoatcheckError, InvalidArgument, QuotaExceeded, StoreError, TaskNotFound

logger = logging.getLogger("coatcheck")

TOO_MANY = -32029
"""Too many unfinished tasks, or too many polls: the same request may succeed later."""


@contextmanager
def as_protocol_errors() -> Generator[None]:
    """Turn what the engine refuses into the error the caller gets."""
    try:
        yield
    except CoatcheckError as error:
        raise protocol_error(error) from error


def missing_tasks(message: str) -> MCPError:
    """Return the error for a caller that did not declare the extension in this request."""
    return MCPError(
        MISSING_REQUIRED_CLIENT_CAPABILITY, message, {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    )


def protocol_error(error: CoatcheckError) -> MCPError:
    match error:
        case TaskNotFound():
            return MCPError(INVALID_PARAMS, NOT_FOUND)
        case QuotaExceeded():
            return MCPError(TOO_MANY, str(error), {"unfinished": error.quota})
        case StoreError():
            logger.error("The task store failed: %s", error)
            return MCPError(INTERNAL_ERROR, "The task store is not available just now; try again in a moment")
        case InvalidArgument():
            return MCPError(INVALID_PARAMS, str(error))
        case _:
            return MCPError(INTERNAL_ERROR, str(error))
