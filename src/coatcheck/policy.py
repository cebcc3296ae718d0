"""The numbers an operator may tune, and what a single tool may ask for instead."""

from __future__ import annotations

import math
from datetime import timedelta

import msgspec

from coatcheck.errors import InvalidArgument

_SHORTEST = timedelta.resolution.total_seconds()
_LONGEST = timedelta(days=36500)

_COUNTS = (
    *("quota", "anonymous_quota", "children", "max_losses"),
    *("max_arguments", "max_answer", "max_journal", "max_result"),
)

Duration = timedelta | float
"""A timedelta, or seconds."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers an operator may tune."""

    ttl: timedelta = timedelta(hours=1)
    """Lifetime from creation, where none is asked for."""
    max_ttl: timedelta = timedelta(hours=24)
    """Longer wishes are cut to this."""
    allows_unlimited_ttl: bool = False
    patience: timedelta = timedelta(days=7)
    """How long a question to a person may stay open; the lifetime stands still meanwhile."""
    retention: timedelta = timedelta(minutes=5)
    """At least how long an outcome is kept, however little lifetime was left."""
    poll_interval: timedelta = timedelta(seconds=2)
    quota: int | None = 16
    """Unfinished tasks an owner may have."""
    anonymous_quota: int | None = None
    """Unfinished tasks that callers without an owner may have, all together."""
    children: int | None = 1000
    """Unfinished tasks that the work of one task may have made."""
    lease: timedelta = timedelta(seconds=20)
    """How long a worker may be silent before its task counts as stalled; half as long again and it is lost."""
    max_losses: int = 3
    """With this many lost workers a resumable task fails."""
    note_interval: timedelta = timedelta(seconds=0.5)
    """How often progress is written at most."""
    park_after: timedelta = timedelta(minutes=1)
    """How long resumable work stays in memory waiting for an answer before it makes room."""
    unwind: timedelta = timedelta(seconds=5)
    """How long stopped work may take to clean up before it is left alone."""
    max_arguments: int | None = 1 << 20
    """Bytes of JSON that the arguments of a call may have, and what else is kept of it. None, here and below: any."""
    max_answer: int | None = 1 << 20
    """Bytes of JSON of a question, and of an answer."""
    max_journal: int | None = 64 << 20
    """Bytes of JSON of all steps and output of a task together."""
    max_result: int | None = 16 << 20
    """Bytes of JSON of a result, and of an error's data."""

    def __post_init__(self) -> None:
        for name in ("ttl", "max_ttl", "patience", "poll_interval", "lease"):
            if duration(name, getattr(self, name)) > _LONGEST:
                raise InvalidArgument(
                    f"{name} must be at most {_LONGEST.days} days; for tasks that stay, allow no ttl."
                )
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidArgument(f"{name} must be at least 1, but it is {value}.")


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What one tool, or one call, wants other than the policy's defaults."""

    ttl: Duration | msgspec.UnsetType | None = msgspec.UNSET
    """None: unlimited, where the operator allows it."""
    poll_interval: Duration | None = None
    resumable: bool = False
    version: str = ""
    """Of the tool: a worker runs a task only if it knows that version of it."""


def lifetime(policy: Policy, terms: Terms) -> timedelta | None:
    """Return how long a new task lives.

    Raises:
        InvalidArgument: The wish is no positive duration, or unlimited where that is not allowed.
    """
    if terms.ttl is msgspec.UNSET:
        return min(policy.ttl, policy.max_ttl)
    if terms.ttl is None:
        if policy.allows_unlimited_ttl:
            return None
        raise InvalidArgument(
            "A task without a ttl is not allowed here; leave the ttl out, or set allows_unlimited_ttl in the policy."
        )
    return min(duration("ttl", terms.ttl), policy.max_ttl)


def poll_interval(policy: Policy, terms: Terms) -> timedelta:
    wish = terms.poll_interval
    return policy.poll_interval if wish is None else duration("poll_interval", wish)


def duration(name: str, value: Duration) -> timedelta:
    """Return `value` as a positive timedelta.

    Raises:
        InvalidArgument: It is not one.
    """
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{name} must be a timedelta or a number of seconds, not {type(value).__name__}.")
    if not _SHORTEST <= seconds < math.inf:  # which nan is not either
        raise InvalidArgument(f"{name} must be longer than zero, but it is {value}; give a positive duration.")
    return timedelta.max if seconds >= timedelta.max.total_seconds() else timedelta(seconds=seconds)
