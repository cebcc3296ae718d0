"""What the meta tools refuse, by codes that a program can tell apart."""

from __future__ import annotations

from typing import Any

from mcp.shared.exceptions import MCPError

from coatcheck.client.wire import Json
from coatcheck.dialects.words import EXPIRED, FORBIDDEN, STATE_UNKNOWN, TOO_MANY, UNREACHABLE
from coatcheck.errors import CannotConnect, CoatcheckError, InvalidArgument, QuotaExceeded, TaskNotFound
from coatcheck.payload import encode
from coatcheck.proxy.failures import Unreachable

SERVER_NOT_FOUND = "TOOL_ERR_SERVER_NOT_FOUND"
SERVER_UNREACHABLE = "TOOL_ERR_SERVER_UNREACHABLE"
SERVER_RECONNECTING = "TOOL_ERR_SERVER_RECONNECTING"
STATE_UNKNOWN_AFTER_LOSS = "TOOL_ERR_STATE_UNKNOWN"
UPSTREAM_ERROR = "TOOL_ERR_UPSTREAM"
TASK_NOT_FOUND = "TOOL_ERR_TASK_NOT_FOUND"
TASK_EXPIRED = "TOOL_ERR_TASK_EXPIRED"
TASK_CANCELLED = "TOOL_ERR_TASK_CANCELLED"
TASK_FAILED = "TOOL_ERR_TASK_FAILED"
TIMEOUT = "TOOL_ERR_TIMEOUT"
TOO_MANY_TASKS = "TOOL_ERR_TOO_MANY_TASKS"
TOO_OFTEN = "TOOL_ERR_TOO_OFTEN"
REQUEST_NOT_FOUND = "TOOL_ERR_REQUEST_NOT_FOUND"
TIMER_NOT_FOUND = "TOOL_ERR_TIMER_NOT_FOUND"
INVALID_ARGUMENT = "TOOL_ERR_INVALID_ARGUMENT"
NOT_ALLOWED = "TOOL_ERR_NOT_ALLOWED"
INTERNAL = "TOOL_ERR_INTERNAL"


class ToolRefusal(CoatcheckError):
    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code, self.details = code, details


def refused(error: BaseException) -> Json:
    """Return an error as the result of a tool: a code, a sentence, and what a program may want to know."""
    refusal = _refusal(error)
    said = {"error": {"code": refusal.code, "message": str(refusal), **refusal.details}}
    return {"content": [{"type": "text", "text": bytes(encode(said)).decode()}], "isError": True}


def _refusal(error: BaseException) -> ToolRefusal:
    match error:
        case ToolRefusal():
            return error
        case Unreachable():
            return ToolRefusal(SERVER_UNREACHABLE, str(error), **error.when)
        case CannotConnect():
            return ToolRefusal(SERVER_UNREACHABLE, str(error))
        case QuotaExceeded():
            return ToolRefusal(TOO_MANY_TASKS, str(error))
        case TaskNotFound():
            return ToolRefusal(TASK_NOT_FOUND, str(error))
        case InvalidArgument():
            return ToolRefusal(INVALID_ARGUMENT, str(error))
        case MCPError():
            return of_mcp_error(error)
        case CoatcheckError():
            return ToolRefusal(INTERNAL, str(error))
        case _:
            return ToolRefusal(INTERNAL, f"Something went wrong: {error}")


def of_mcp_error(error: MCPError) -> ToolRefusal:
    code = {
        UNREACHABLE: SERVER_UNREACHABLE,
        STATE_UNKNOWN: STATE_UNKNOWN_AFTER_LOSS,
        EXPIRED: TASK_EXPIRED,
        FORBIDDEN: NOT_ALLOWED,
        TOO_MANY: TOO_OFTEN,
    }.get(error.code, UPSTREAM_ERROR)
    details = {"jsonrpc_code": error.code}
    if error.error.data is not None:
        details["data"] = error.error.data
    return ToolRefusal(code, error.message, **details)
