"""How many tasks of a tool or of an owner may run at once, on all workers together: Docket counts them."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import msgspec
from docket import ConcurrencyLimit

from coatcheck.errors import InvalidArgument
from coatcheck.task import Task


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """At most so many at once, wherever they run. Each worker needs the same ones."""

    per_tool: int | None = None
    per_owner: int | None = None
    """Callers without an owner count as one."""

    def __post_init__(self) -> None:
        for name in ("per_tool", "per_owner"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidArgument(f"{name} must be at least 1, but it is {value}.")

    @property
    def are_set(self) -> bool:
        return bool(self.per_tool or self.per_owner)

    def of(self, task: Task) -> Iterator[ConcurrencyLimit]:
        """Return what Docket has to count for this task."""
        if self.per_tool:
            yield ConcurrencyLimit(max_concurrent=self.per_tool, scope=f"tool:{_digest(task.call.tool)}")
        if self.per_owner:
            yield ConcurrencyLimit(max_concurrent=self.per_owner, scope=f"owner:{_digest(task.owner or '')}")


def _digest(name: str) -> str:
    """Names are anyone's, and part of a key in Redis, where nobody need read who is served."""
    return blake2b(name.encode(), digest_size=12).hexdigest()
