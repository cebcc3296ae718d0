"""What an author says about a tool's tasks. What is left out is taken from the server's default."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Literal, get_args

from msgspec import UNSET, UnsetType

from coatcheck.errors import InvalidArgument
from coatcheck.policy import Duration, Terms, duration

_LONGEST_HOLD = 45.0
"""Most hosts cut calls after a minute."""

Mode = Literal["forbidden", "optional", "required"]


@dataclass(frozen=True, slots=True)
class TaskPolicy:
    """Whether calls of a tool become tasks, and on what terms. Durations are timedeltas or seconds."""

    mode: Mode | UnsetType = UNSET
    """forbidden: never a task. optional: a task for clients that can, held for others. required: only tasks."""
    _: KW_ONLY
    ttl: Duration | UnsetType | None = UNSET
    """Lifetime from creation; None: unlimited, where the operator allows it."""
    poll_interval: Duration | UnsetType = UNSET
    timeout: Duration | UnsetType | None = UNSET
    """How long one run may take, not counting the time it waits for answers."""
    version: str | UnsetType = UNSET
    """Of the tool, for rolling upgrades: tasks of a version are run by workers that know that version."""
    accepts: Sequence[str] | UnsetType = UNSET
    """Older versions whose tasks this one can run as well; "" is of before the tool had versions."""
    resumable: bool | UnsetType = UNSET
    """Run again after its worker was lost, with recorded steps and answers replayed; otherwise fail, and say so."""
    promote_after: Duration | UnsetType | None = UNSET
    """Answer directly if the tool is done by then, if not with a task, or to clients without tasks with a ticket.

    Left out: a task at once, a ticket after 45 seconds. None: a task at once, and no ticket however long it takes.
    """
    detached: bool | UnsetType = UNSET
    """Run in a process of its own, which goes on when this one ends; for hosts that do not live as long as tasks."""
    fallback: bool | UnsetType = UNSET
    """Whether a tool that is `required` to be a task is `optional` to clients without tasks."""
    cancel_on_disconnect: bool | UnsetType = UNSET
    """Whether a call of a client without tasks is cancelled when that client gives up waiting for it."""

    def __post_init__(self) -> None:
        if self.mode is not UNSET and self.mode not in get_args(Mode):
            raise InvalidArgument(f"mode must be one of {', '.join(get_args(Mode))}, but it is {self.mode!r}.")
        for name in ("ttl", "poll_interval", "timeout", "promote_after"):
            value: Duration | UnsetType | None = getattr(self, name)
            if value is not UNSET and (value is not None or name == "poll_interval"):
                duration(name, value)  # pyright: ignore[reportArgumentType]
        if isinstance(self.accepts, str):
            raise InvalidArgument(f"accepts takes a list of versions, not a text; write accepts=[{self.accepts!r}].")

    def over(self, default: TaskPolicy) -> TaskPolicy:
        """Return this policy with what it leaves out taken from `default`."""
        said = {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not UNSET}
        return replace(default, **said)

    def terms(self) -> Terms:
        poll_interval = None if self.poll_interval is UNSET else self.poll_interval
        return Terms(
            ttl=self.ttl,
            poll_interval=poll_interval,
            resumable=self.resumable is True,
            version="" if self.version is UNSET else self.version,
        )

    @property
    def also(self) -> tuple[str, ...]:
        """Return the older versions it can run as well."""
        return () if self.accepts is UNSET else tuple(self.accepts)

    @property
    def limit(self) -> Duration | None:
        return None if self.timeout is UNSET else self.timeout

    @property
    def patience(self) -> float | None:
        """Return for how many seconds a direct answer is waited for, if at all."""
        if self.promote_after is UNSET or self.promote_after is None:
            return None
        return duration("promote_after", self.promote_after).total_seconds()

    @property
    def longest_hold(self) -> float:
        """Return for how many seconds the call of a client without tasks is held before it gets a ticket."""
        if self.promote_after is UNSET:
            return _LONGEST_HOLD
        return math.inf if self.promote_after is None else duration("promote_after", self.promote_after).total_seconds()


TaskWish = TaskPolicy | Mode | bool
"""How a policy may be written: in full, as its mode, or as yes or no."""


def policy_of(wish: TaskWish | None) -> TaskPolicy:
    """Return the policy a wish stands for; None: all as the server's default."""
    match wish:
        case TaskPolicy():
            return wish
        case None:
            return TaskPolicy()
        case bool():
            return TaskPolicy("optional" if wish else "forbidden")
        case _:
            return TaskPolicy(wish)
