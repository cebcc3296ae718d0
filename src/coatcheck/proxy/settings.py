"""What an operator may set of a proxy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from coatcheck.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    promote_after: float = 10.0
    """Seconds after which a call that has not ended becomes a task."""
    prefixes: bool = True
    """Whether tools, prompts and resources carry their server's name."""
    has_meta_tools: bool = False
    """Whether the meta tools are shown in place of the servers' own."""
    is_for_one: bool = True
    """Whether all callers that say nothing of themselves are one person."""
    idle: timedelta = timedelta(minutes=30)
    """How long a session lives that nobody uses."""
    question_timeout: timedelta = timedelta(minutes=10)
    """How long the meta tools hold a question."""
    default_ttl: timedelta = timedelta(minutes=5)
    """How long a call may go on that a meta tool made a task of."""
    max_ttl: timedelta = timedelta(minutes=30)
    retention: timedelta = timedelta(minutes=5)
    """How long an outcome is kept."""
    max_tasks: int = 100
    """Unfinished tasks of one session."""

    def __post_init__(self) -> None:
        if not self.promote_after > 0:
            raise InvalidArgument("promote_after must be longer than zero seconds.")
        if self.max_tasks < 1:
            raise InvalidArgument("max_tasks must be at least 1.")

    @property
    def ttl(self) -> timedelta:
        return min(self.default_ttl, self.max_ttl)
