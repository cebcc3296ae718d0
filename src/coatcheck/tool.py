"""What a worker can run: a name, the work behind it, and the terms its tasks are made on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from coatcheck.context import TaskContext
from coatcheck.policy import Duration, Terms

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
    timeout: Duration | None = None
    """How long one run may take, not counting the time it waits for answers."""
