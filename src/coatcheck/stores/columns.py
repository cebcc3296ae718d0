"""What stores keep beside a task's bytes, to find it by."""

from __future__ import annotations

from datetime import UTC, datetime

from coatcheck.task import Status, Task

WAITING, HELD, PARKED, FINISHED = range(4)
"""The state of a task, as stores tell them apart. Those that are not finished come first."""
BEGINNING, END = -(1 << 63), (1 << 63) - 1
"""As microseconds: before and after all that is. What never expires does so at the end."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def state_of(task: Task) -> int:
    if task.status.is_terminal:
        return FINISHED
    if task.lease is not None:
        return HELD
    return WAITING if task.status is Status.WORKING else PARKED


def microseconds(moment: datetime) -> int:
    """Return the moment as a number that sorts."""
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
