"""Tasks in the words of 2025-11-25, where they are part of the core protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from coatcheck.dialects.words import (
    INVALID_PARAMS,
    RELATED_TASK,
    WireError,
    lifetime,
    message,
    poll_interval,
    progress,
    write_error,
)
from coatcheck.payload import decode, encode
from coatcheck.task import Status, Task

VERSION = "2025-11-25"
IMMEDIATE_RESPONSE = "io.modelcontextprotocol/model-immediate-response"
"""The key in `_meta` of a create result for what a host may tell its model meanwhile."""


class WireTask(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A task as `tasks/get`, `tasks/list`, `tasks/cancel` and `notifications/tasks/status` show it: no payload."""

    task_id: str
    status: str
    status_message: str | UnsetType = UNSET
    created_at: datetime
    last_updated_at: datetime
    ttl: int | None
    poll_interval: int


def write_task(task: Task) -> dict[str, Any]:
    wire = WireTask(
        task_id=task.id,
        status=status(task).value,
        status_message=_message(task) or UNSET,
        created_at=task.created_at,
        last_updated_at=task.updated_at,
        ttl=lifetime(task),
        poll_interval=poll_interval(task),
    )
    return msgspec.to_builtins(wire)


def write_seen(task: Task) -> dict[str, Any]:
    """Return a task as an answer or a notification of its own, which has room for its progress."""
    meta = progress(task)
    return {**write_task(task), "_meta": meta} if meta else write_task(task)


def write_created(task: Task) -> dict[str, Any]:
    """Return what answers a `tools/call` that became a task."""
    how = "It has ended" if task.status.is_terminal else "It is still running; its result comes later"
    hint = f"Started {task.call.tool} as task {task.id}. {how}."
    return {"task": write_task(task), "_meta": {IMMEDIATE_RESPONSE: hint}}


def status(task: Task) -> Status:
    """A tool's own error report is a failure to this generation."""
    return Status.FAILED if task.status is Status.COMPLETED and task.is_error else task.status


def related(task_id: str) -> dict[str, Any]:
    """Return the `_meta` of a message that belongs to a task."""
    return {RELATED_TASK: {"taskId": task_id}}


def write_result(task: Task) -> dict[str, Any]:
    """Return the result of a task that has one: what the call would have returned, and which task it is of."""
    return _with_related(decode(task.result), task.id)


def error_of(task: Task) -> WireError | None:
    """Return what a task ended with, if that is no result. A cancelled one would never have been answered at all."""
    if task.failure:
        return _named(task, write_error(task.failure))
    if task.status is Status.CANCELLED:
        reason = f": {task.status_message}" if task.status_message else ""
        return _named(task, WireError(INVALID_PARAMS, f"Task was cancelled{reason}"))
    return None


def _named(task: Task, error: WireError) -> WireError:
    """Return an error that says which task it is of, where its data has room for that."""
    data: Any = {} if error.data is UNSET else decode(error.data)
    if not isinstance(data, dict):
        return error
    return WireError(error.code, error.message, encode(_with_related(cast("dict[str, Any]", data), task.id)))


def _with_related(value: dict[str, Any], task_id: str) -> dict[str, Any]:
    meta = value.get("_meta")
    known = cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}
    return {**value, "_meta": {**known, **related(task_id)}}


def _message(task: Task) -> str | None:
    """Some clients show nothing of a failed task but its message, so that has to be the tool's own."""
    return _text_of(task) or message(task) if status(task) is Status.FAILED else message(task)


def _text_of(task: Task) -> str | None:
    if task.result is UNSET:
        return None
    result: Mapping[str, Any] = decode(task.result)
    blocks: Sequence[Mapping[str, Any]] = result.get("content") or ()
    return next((block["text"] for block in blocks if block.get("type") == "text"), None)
