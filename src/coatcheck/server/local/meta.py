"""What a call of your own code says about the task it is to be."""

from __future__ import annotations

from dataclasses import dataclass, replace

from msgspec import UNSET, UnsetType

from coatcheck.policy import Duration
from coatcheck.server.bodies.kinds import PROMPT_PREFIX, RESOURCE_PREFIX

_TOOL_PREFIX = "tool:"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMeta:
    """Asks for a task in place of a result. Durations are timedeltas or seconds."""

    ttl: Duration | UnsetType | None = UNSET
    """Lifetime from creation; left out: as the component's policy has it."""
    owner: str | UnsetType | None = UNSET
    """Whose it is. Left out: the task's whose work makes it, else the caller's whose request does, else nobody's."""
    idempotency_key: str | None = None
    """What makes repeats of the call one."""
    component: str | None = None
    """What carries it out, as `tool:shop_add`. Filled in by the server that is called; what is set stays."""


def keyed(meta: TaskMeta, component: str) -> TaskMeta:
    """Return `meta` with its component: the only place that sets one."""
    return meta if meta.component is not None else replace(meta, component=component)


def component_of(row: str) -> str:
    """Return the key of a component by the name its rows have."""
    return row if row.startswith((RESOURCE_PREFIX, PROMPT_PREFIX)) else f"{_TOOL_PREFIX}{row}"


def row_of(component: str) -> str:
    """Return the name that the rows of a component have."""
    return component.removeprefix(_TOOL_PREFIX)
