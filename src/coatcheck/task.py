"""What a task is: one immutable row, and the values inside it."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from coatcheck.payload import Payload

NOTHING = Payload(b"{}")
_FAMILY = "task:"
"""What the owners of children begin with; those of callers never do."""
Position = tuple[datetime, str]
"""Where a task stands in a listing: its creation, then its id."""


class Status(StrEnum):
    """Where a task is, in the protocol's words."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in _TERMINAL


_TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})


class _Value(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Immutable, compared by content, encodable; never part of a cycle, so no business of the collector's."""


class _NoItems(dict[str, Any]):
    """A subclass, because msgspec would make a copy of a plain dict for every task."""

    __slots__ = ()


NO_ITEMS = _NoItems()
"""Shared by all tasks that never asked anything."""


class ToolCall(_Value, frozen=True, kw_only=True):
    """The work a task stands for, and who it is done for."""

    tool: str
    version: str = ""
    """Of the tool, where its author tells versions apart."""
    arguments: Payload = NOTHING
    meta: Payload = NOTHING
    identity: Payload | UnsetType = UNSET

    @property
    def full_name(self) -> str:
        """What a worker must know to run it."""
        return full_name(self.tool, self.version)


def is_family(owner: str) -> bool:
    """Whether an owner is a task, and what it owns its children."""
    return owner.startswith(_FAMILY)


def full_name(tool: str, version: str) -> str:
    return f"{tool}@{version}" if version else tool


class Lease(_Value, frozen=True, kw_only=True):
    """Which worker holds the task, and until when unless it renews."""

    worker: str
    until: datetime
    is_stalled: bool = False
    """The lease ran out once; the worker has a last while to be heard from."""
    said: str | None = None
    """The task's message before it stalled."""


class Progress(_Value, frozen=True, kw_only=True):
    done: float
    total: float | None = None


class InputRequest(_Value, frozen=True, kw_only=True):
    """A question to the caller, in the protocol's own words."""

    method: str
    params: Payload
    answer_schema: Payload | UnsetType = UNSET
    """JSON Schema the whole answer must satisfy."""
    judges_itself: bool = False
    """The work looks at answers itself: where one that does not fit cannot be refused, it gets it as it is."""


class Failure(_Value, frozen=True, kw_only=True):
    """Why there is no result. `code` is the work's own error code, if it gave one."""

    message: str
    code: int | None = None
    data: Payload | UnsetType = UNSET


class Entry(_Value, frozen=True, kw_only=True):
    """One line of a task's journal: a recorded step, or a piece of output."""

    kind: str
    key: str
    value: Payload
    at: datetime

    @property
    def size(self) -> int:
        """Its bytes, as they count for the journal."""
        return len(self.key.encode("utf-8", "surrogatepass")) + len(self.value)


class Task(_Value, frozen=True, kw_only=True):
    """A durable tool call. Changed only by `lifecycle.advance`, one version at a time."""

    id: str
    owner: str | None
    call: ToolCall
    created_at: datetime
    updated_at: datetime
    """Strictly later with every change a caller can see, whatever the clock does."""
    expires_at: datetime | None
    time_left: timedelta | None = None
    """Lifetime that was left when a person was asked; it runs on once they have answered."""
    poll_interval: timedelta
    resumable: bool = False
    """Whether the work may be run again after its worker was lost."""
    idempotency_key: str | None = None
    status: Status = Status.WORKING
    status_message: str | None = None
    progress: Progress | None = None
    input_requests: dict[str, InputRequest] = NO_ITEMS
    input_responses: dict[str, Payload] = NO_ITEMS
    result: Payload | UnsetType = UNSET
    is_error: bool = False
    """The result is a tool's own error report: `failed` to one protocol generation, `completed` to the other."""
    failure: Failure | None = None
    lease: Lease | None = None
    attempt: int = 0
    """Which claim this is; fences the reports of earlier ones."""
    losses: int = 0
    """How many workers were lost on it."""
    entries: int = 0
    """Length of the journal."""
    journal_size: int = 0
    """Bytes of the names and values in it, as far as they were counted: rows of before that begin with none."""
    version: int = 1

    @property
    def is_waiting(self) -> bool:
        """No worker holds it, and a worker is what it needs."""
        return self.lease is None and self.status is Status.WORKING

    @property
    def position(self) -> Position:
        return self.created_at, self.id

    @property
    def as_owner(self) -> str:
        """Return the owner of its children: the tasks that its work made of calls of its own."""
        return f"{_FAMILY}{self.id}"

    @property
    def is_child(self) -> bool:
        """Whether the work of another task made it."""
        return self.owner is not None and is_family(self.owner)
