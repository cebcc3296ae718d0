"""Tasks as a client sees them, in the words of either generation, and forgiving: servers are what they are."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, cast

import msgspec

from coatcheck.dialects.words import PROGRESS
from coatcheck.errors import ProtocolViolation
from coatcheck.task import Progress, Status

logger = logging.getLogger("coatcheck")
Json = Mapping[str, Any]
_LONGEST = timedelta(days=36500)


class Question(msgspec.Struct, frozen=True):
    """What a task wants to know: an MCP request, as the server wrote it."""

    method: str
    params: Json


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A task as it was when it was last seen."""

    id: str
    status: Status
    message: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    ttl: timedelta | None = None
    """How long the server keeps it, from its creation; None: without end, or it did not say."""
    poll_interval: timedelta | None = None
    progress: Progress | None = None
    questions: Mapping[str, Question] = msgspec.field(default_factory=dict[str, Question])
    result: Json | None = None
    error: Json | None = None

    @property
    def is_terminal(self) -> bool:
        return self.status.is_terminal

    def is_news_after(self, other: Snapshot) -> bool:
        """Whether anything is new. Some servers call every look an update, so that alone is none."""
        return self != msgspec.structs.replace(other, updated_at=self.updated_at)


def read_task(raw: object) -> Snapshot:
    """Read a task. What is missing or odd is left out, but for the id, without which there is no task.

    Raises:
        ProtocolViolation: This is no task.
    """
    task = _object(raw)
    if not isinstance(task_id := task.get("taskId"), str) or not task_id:
        raise ProtocolViolation("The server answered with a task that has no id")
    status, message = _status(task.get("status")), task.get("statusMessage")
    return Snapshot(
        id=task_id,
        status=status,
        message=message if isinstance(message, str) else None,
        created_at=_time(task.get("createdAt")),
        updated_at=_time(task.get("lastUpdatedAt")),
        ttl=_duration(task.get("ttlMs", task.get("ttl"))),
        poll_interval=_duration(task.get("pollIntervalMs", task.get("pollInterval"))),
        progress=read_progress(_object(task.get("_meta")).get(PROGRESS)),
        questions=_questions(task.get("inputRequests")) if status is Status.INPUT_REQUIRED else {},
        result=_object(task.get("result")) or None,
        error=_object(task.get("error")) or None,
    )


def read_progress(raw: object) -> Progress | None:
    """Read progress, as `notifications/progress` has it."""
    said = _object(raw)
    done, total = said.get("progress"), said.get("total")
    if not _is_number(done):
        return None
    return Progress(done=float(cast("float", done)), total=float(cast("float", total)) if _is_number(total) else None)


def _object(raw: object) -> dict[str, Any]:
    return cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _status(raw: object) -> Status:
    """Return the status. One we do not know may be of a later protocol: whatever it is, it is no end."""
    try:
        return Status(cast("str", raw))
    except ValueError:
        _wonder(str(raw))
        return Status.WORKING


@cache
def _wonder(status: str) -> None:
    """Say it once, not with every poll."""
    logger.warning("A server has tasks with the unknown status %r; it is taken for working", status)


def _time(raw: object) -> datetime | None:
    try:
        time = datetime.fromisoformat(cast("str", raw))
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _duration(raw: object) -> timedelta | None:
    if not _is_number(raw):
        return None
    milliseconds = cast("float", raw)
    return min(timedelta(milliseconds=max(0.0, min(milliseconds, 1e13))), _LONGEST)


def _questions(raw: object) -> dict[str, Question]:
    found = ((key, _object(request)) for key, request in _object(raw).items())
    return {
        key: Question(request["method"], _object(request.get("params")))
        for key, request in found
        if isinstance(request.get("method"), str)
    }
