"""Who becomes a task: the tool's mode against what the caller can do. One table, read before anything is written."""

from __future__ import annotations

from enum import Enum, auto

from msgspec import UNSET

from coatcheck.server.calls.caller import Caller
from coatcheck.server.policy import Mode, TaskPolicy


class Offer(Enum):
    RUN = auto()
    """Run it now and answer with the result."""
    TASK = auto()
    HOLD = auto()
    """Make a task of it, and keep the caller waiting for the result, or for a ticket if that takes too long."""
    REFUSE = auto()
    """The tool and the caller have no way in common."""


OFFERS: dict[tuple[Mode, Caller], Offer] = {
    ("forbidden", Caller.KNOWS_NO_TASKS): Offer.RUN,
    ("forbidden", Caller.ACCEPTS_TASKS): Offer.RUN,
    ("forbidden", Caller.ASKS_FOR_TASK): Offer.REFUSE,
    ("optional", Caller.KNOWS_NO_TASKS): Offer.HOLD,
    ("optional", Caller.ACCEPTS_TASKS): Offer.TASK,
    ("optional", Caller.ASKS_FOR_TASK): Offer.TASK,
    ("required", Caller.KNOWS_NO_TASKS): Offer.REFUSE,
    ("required", Caller.ACCEPTS_TASKS): Offer.TASK,
    ("required", Caller.ASKS_FOR_TASK): Offer.TASK,
}


def offer(policy: TaskPolicy | None, caller: Caller) -> Offer:
    return OFFERS[mode_towards(policy, caller), caller]


def mode_towards(policy: TaskPolicy | None, caller: Caller) -> Mode:
    """Return the tool's mode; one that its author lets fall back is optional to those without tasks."""
    if policy is None or policy.mode is UNSET:
        return "forbidden"
    if policy.mode == "required" and policy.fallback is True and caller is Caller.KNOWS_NO_TASKS:
        return "optional"
    return policy.mode
