"""Tasks that are not to start before their time. The row has it, in its call's `meta`, so Docket may forget it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from coatcheck.errors import InvalidArgument
from coatcheck.payload import Payload, decode, encode
from coatcheck.task import Task

NOT_BEFORE = "coatcheck/notBefore"
_MARK = NOT_BEFORE.encode()


def with_time(meta: Mapping[str, Any] | Payload, not_before: datetime) -> Payload:
    """Return `meta` with the time in it.

    Raises:
        InvalidArgument: The time has no time zone.
    """
    if not_before.tzinfo is None:
        raise InvalidArgument("not_before must have a time zone, as datetime.now(UTC) + timedelta(hours=1) has.")
    said = decode(meta) if isinstance(meta, Payload) else meta
    return encode({**said, NOT_BEFORE: not_before.isoformat()})


def not_before(task: Task) -> datetime | None:
    """Return when the task may start, if that was said."""
    if _MARK not in bytes(task.call.meta):  # nearly always, and far cheaper than to decode it
        return None
    try:
        time = datetime.fromisoformat(decode(task.call.meta)[NOT_BEFORE])
    except (KeyError, TypeError, ValueError):  # a caller may use our name for something else
        return None
    return time if time.tzinfo else None
