"""What a call is answered with once its task has ended, as if there had never been one."""

from __future__ import annotations

from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError

from coatcheck.dialects.words import REQUEST_CANCELLED, write_error
from coatcheck.payload import decode
from coatcheck.server.calls.caller import MODERN
from coatcheck.server.failures import raised
from coatcheck.task import Status, Task


def outcome(task: Task, version: str) -> HandlerResult:
    """Return the result in the words of a protocol version.

    Raises:
        MCPError: The call ended with an error.
    """
    if task.status is Status.COMPLETED:
        return {"resultType": "complete", **decode(task.result)} if version in MODERN else decode(task.result)
    if task.failure:
        raise raised(write_error(task.failure))
    raise MCPError(REQUEST_CANCELLED, f"The call was cancelled: {task.status_message or 'by an operator'}")
