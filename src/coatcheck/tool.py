"""What a worker can run: a name, the work behind it, and the terms its tasks are made on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from coatcheck.context import TaskContext
from coatcheck.policy import Duration, Terms
from coatcheck.task import full_name

Work = Callable[[TaskContext, Mapping[str, Any]], Awaitable[Any]]
"""Runs one call with its arguments and returns something that has a JSON form."""


class Outcome(msgspec.Struct, frozen=True):
    """What work may return instead of a plain value, to mark it as the tool's own report of an error."""

    value: Any
    is_error: bool = False


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A name, and the work it stands for."""

    name: str
    work: Work
    terms: Terms = Terms()
    accepts: tuple[str, ...] = ()
    """Older versions whose tasks it can run as well; the empty one is of before there were versions."""
    timeout: Duration | None = None
    """How long one run may take, not counting the time it waits for answers."""

    @property
    def full_names(self) -> list[str]:
        """What tasks are called that it can run."""
        return [full_name(self.name, version) for version in dict.fromkeys((self.terms.version, *self.accepts))]
