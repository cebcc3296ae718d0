"""Tasks in the words of 2026-07-28, the extension `io.modelcontextprotocol/tasks`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from coatcheck.payload import Payload, decode
from coatcheck.task import NOTHING, Failure, InputRequest, Status, Task

EXTENSION = "io.modelcontextprotocol/tasks"
VERSION = "2026-07-28"

INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_FOUND = "Failed to retrieve task: Task not found"

_FRAME = b'{"resultType":"complete"'
_MILLISECOND = timedelta(milliseconds=1)


class WireRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of `inputRequests`."""

    method: str
    params: Payload | UnsetType = UNSET


class WireError(msgspec.Struct, frozen=True, omit_defaults=True):
    """A JSON-RPC error."""

    code: int
    message: str
    data: Payload | UnsetType = UNSET


class WireTask(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`CreateTaskResult`, `GetTaskResult`, the params of `notifications/tasks`: they differ in `resultType` only."""

    result_type: str | UnsetType = UNSET
    task_id: str
    status: str
    status_message: str | UnsetType = UNSET
    created_at: datetime
    last_updated_at: datetime
    ttl_ms: int | None
    poll_interval_ms: int
    input_requests: dict[str, WireRequest] | UnsetType = UNSET
    result: Payload | UnsetType = UNSET
    error: WireError | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")


def write_created(task: Task, meta: dict[str, Any] | UnsetType = UNSET) -> WireTask:
    """Return what answers a `tools/call` that became a task: the task without its payload."""
    return _write(task, result_type="task", meta=meta)


def write_task(task: Task, meta: dict[str, Any] | UnsetType = UNSET) -> WireTask:
    """Return what answers a `tasks/get`."""
    return _write(task, result_type="complete", meta=meta, **_payload(task))


def write_notification(task: Task, meta: dict[str, Any]) -> WireTask:
    """Return the params of a `notifications/tasks`: what `tasks/get` would say, but no result itself."""
    return _write(task, meta=meta, **_payload(task))


def write_error(failure: Failure) -> WireError:
    """Return the JSON-RPC error the call ended with. What failed outside the tool is an internal error."""
    code = INTERNAL_ERROR if failure.code is None else failure.code
    return WireError(code=code, message=failure.message, data=failure.data)


def plain(wire: WireTask) -> dict[str, Any]:
    """Return the same as dicts and lists, for those who serialize themselves."""
    return decode(Payload(msgspec.json.encode(wire)))


def milliseconds(duration: timedelta) -> int:
    return duration // _MILLISECOND


def _write(task: Task, **rest: Any) -> WireTask:
    return WireTask(
        task_id=task.id,
        status=task.status.value,
        status_message=_message(task) or UNSET,
        created_at=task.created_at,
        last_updated_at=task.updated_at,
        ttl_ms=None if task.expires_at is None else milliseconds(task.expires_at - task.created_at),
        poll_interval_ms=max(milliseconds(task.poll_interval), 1),
        **rest,
    )


def _payload(task: Task) -> dict[str, Any]:
    """Return what a task has in one status only."""
    match task.status:
        case Status.INPUT_REQUIRED:
            return {"input_requests": {key: _request(request) for key, request in task.input_requests.items()}}
        case Status.COMPLETED:
            return {"result": _result(task.result)}
        case Status.FAILED if task.failure:
            return {"error": write_error(task.failure)}
        case _:
            return {}


def _result(kept: Payload | UnsetType) -> Payload | UnsetType:
    """Return the result as the call would have returned it, framed as all results of this generation are."""
    if kept is UNSET or not (result := bytes(kept)).startswith(b"{"):
        return kept
    return Payload(_FRAME + (result[1:] if result == b"{}" else b"," + result[1:]))


def _request(request: InputRequest) -> WireRequest:
    return WireRequest(request.method, UNSET if request.params == NOTHING else request.params)


def _message(task: Task) -> str | None:
    """Say where the task is in a sentence. This generation has no progress of its own, so it is part of it."""
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
