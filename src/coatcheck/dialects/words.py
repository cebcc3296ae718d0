"""What both generations of tasks say alike."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from coatcheck.payload import Payload
from coatcheck.task import Failure, Status, Task

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800

# Ours lie outside of what JSON-RPC and the protocol keep for themselves, and remind of what HTTP says.
FORBIDDEN = -31403
"""The caller may not do this."""
EXPIRED = -31410
"""A task's time was up before its server, behind the proxy, had answered."""
TOO_LARGE = -31413
TOO_MANY = -31429
"""Too many unfinished tasks, calls or polls: the same request may succeed later."""
UNREACHABLE = -31502
"""A server behind the proxy is not there just now."""
STATE_UNKNOWN = -31504
"""Nobody can tell whether a server behind the proxy carried out the call."""

NOT_FOUND = "Failed to retrieve task: Task not found"
RELATED_TASK = "io.modelcontextprotocol/related-task"
"""The key in `_meta` under which a message names the task it belongs to."""
IDEMPOTENCY_KEY = "coatcheck/idempotencyKey"
"""The key in `_meta` of a call for what makes repeats of it one; servers say under the same name that they heed it."""
PROGRESS = "coatcheck/progress"
"""The key in `_meta` of a task for its progress, which the protocol has no room for in a task."""
QUESTION_KEY = "coatcheck/inputKey"
"""The key in `_meta` of a question put to a client for its name in the task, so that it can tell a repeat."""
TASK_SUPPORT = "coatcheck/taskSupport"
"""The key in `_meta` of a tool for what 2025-11-25 calls `execution.taskSupport`, and 2026-07-28 does not say."""

_MILLISECOND = timedelta(milliseconds=1)


class WireError(msgspec.Struct, frozen=True, omit_defaults=True):
    """A JSON-RPC error."""

    code: int
    message: str
    data: Payload | UnsetType = UNSET


def write_error(failure: Failure) -> WireError:
    """Return the JSON-RPC error the call ended with. What failed outside the tool is an internal error."""
    code = INTERNAL_ERROR if failure.code is None else failure.code
    return WireError(code=code, message=failure.message, data=failure.data)


def milliseconds(duration: timedelta) -> int:
    return duration // _MILLISECOND


def lifetime(task: Task) -> int | None:
    """Return the task's lifetime from its creation, in milliseconds; None: unlimited."""
    return None if task.expires_at is None else milliseconds(task.expires_at - task.created_at)


def poll_interval(task: Task) -> int:
    return max(milliseconds(task.poll_interval), 1)


def progress(task: Task) -> dict[str, Any]:
    """Return the `_meta` of a task that is under way and tells how far it has got."""
    if task.progress is None or task.status.is_terminal:
        return {}
    done, total = task.progress.done, task.progress.total
    return {PROGRESS: {"progress": done} if total is None else {"progress": done, "total": total}}


def message(task: Task) -> str | None:
    """Say where the task is in a sentence, with its progress, for those who see nothing else of it."""
    if task.failure:
        return task.failure.message
    if task.is_waiting and task.attempt == 0:
        return "Waiting for a worker"
    if task.status is Status.INPUT_REQUIRED and task.status_message is None:
        return "Waiting for an answer"
    if task.progress is None or task.status.is_terminal:
        return task.status_message
    done, total = task.progress.done, task.progress.total
    progress = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    return f"{task.status_message} ({progress})" if task.status_message else progress
