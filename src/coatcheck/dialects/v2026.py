"""Tasks in the words of 2026-07-28, the extension `io.modelcontextprotocol/tasks`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from coatcheck.dialects.words import WireError, lifetime, message, poll_interval, progress, write_error
from coatcheck.payload import Payload, decode
from coatcheck.task import NOTHING, InputRequest, Status, Task

EXTENSION = "io.modelcontextprotocol/tasks"
VERSION = "2026-07-28"

_FRAME = b'{"resultType":"complete"'


class WireRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of `inputRequests`."""

    method: str
    params: Payload | UnsetType = UNSET


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
    return _write(task, result_type="complete", meta=_with_progress(task, meta), **_payload(task))


def write_notification(task: Task, meta: dict[str, Any]) -> WireTask:
    """Return the params of a `notifications/tasks`: what `tasks/get` would say, but no result itself."""
    return _write(task, meta=_with_progress(task, meta), **_payload(task))


def plain(wire: WireTask) -> dict[str, Any]:
    """Return the same as dicts and lists, for those who serialize themselves."""
    return decode(Payload(msgspec.json.encode(wire)))


def _write(task: Task, **rest: Any) -> WireTask:
    return WireTask(
        task_id=task.id,
        status=task.status.value,
        status_message=message(task) or UNSET,
        created_at=task.created_at,
        last_updated_at=task.updated_at,
        ttl_ms=lifetime(task),
        poll_interval_ms=poll_interval(task),
        **rest,
    )


def _with_progress(task: Task, meta: dict[str, Any] | UnsetType) -> dict[str, Any] | UnsetType:
    more = progress(task)
    if not more:
        return meta
    return more if meta is UNSET else {**meta, **more}


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
