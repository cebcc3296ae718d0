"""Who becomes a task: the tool's mode against what the caller can do. One table, read before anything is written."""

from __future__ import annotations

from enum import Enum, auto

from msgspec import UNSET

from coatcheck.server.policy import Mode, TaskPolicy


class Caller(Enum):
    """What a caller said about tasks in this very request; what it said earlier does not count."""

    KNOWS_NO_TASKS = auto()
    ACCEPTS_TASKS = auto()


class Offer(Enum):
    RUN = auto()
    """Run it now and answer with the result."""
    TASK = auto()
    REFUSE = auto()
    """The tool needs what the caller cannot do."""


OFFERS: dict[tuple[Mode, Caller], Offer] = {
    ("forbidden", Caller.KNOWS_NO_TASKS): Offer.RUN,
    ("forbidden", Caller.ACCEPTS_TASKS): Offer.RUN,
    ("optional", Caller.KNOWS_NO_TASKS): Offer.RUN,
    ("optional", Caller.ACCEPTS_TASKS): Offer.TASK,
    ("required", Caller.KNOWS_NO_TASKS): Offer.REFUSE,
    ("required", Caller.ACCEPTS_TASKS): Offer.TASK,
}


def offer(policy: TaskPolicy, caller: Caller) -> Offer:
    return OFFERS["forbidden" if policy.mode is UNSET else policy.mode, caller]
