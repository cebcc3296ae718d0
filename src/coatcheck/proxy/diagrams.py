"""The diagrams that the proxy shows of itself, drawn from the tables it goes by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coatcheck.payload import encode
from coatcheck.proxy.states import CALLS, ELICITATIONS, SAMPLINGS, TASKS, Table

DIAGRAMS_URI = "coatcheck://diagrams"
ALIAS_URI = "emceepee://diagrams"

_INDENT = "    "

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Client": {"client": "Client and its model"},
    "Proxy": {
        "tasks": "Tasks",
        "elicitations": "Pending elicitations",
        "samplings": "Pending sampling requests",
        "events": "Events",
        "notifications": "Notifications",
        "logs": "Logs",
        "timers": "Timers",
    },
    "Servers": {"first": "Server 1", "second": "Server 2"},
}
"""Who there is, by where it is."""

_SAID_BY_SERVERS = (
    ("result of tools/call", ("tasks",)),
    ("elicitation/create", ("elicitations",)),
    ("sampling/createMessage", ("samplings",)),
    ("notifications/*", ("notifications",)),
    ("notifications/message", ("logs",)),
)
TALK: Sequence[tuple[str, str, Sequence[str]]] = (
    ("client", "execute_tool", ("tasks",)),
    ("client", "get_task_result", ("tasks",)),
    ("client", "respond_to_elicitation", ("elicitations",)),
    ("client", "respond_to_sampling", ("samplings",)),
    ("client", "await_activity", ("events", "tasks", "elicitations", "samplings")),
    ("client", "get_notifications", ("notifications",)),
    ("client", "get_logs", ("logs",)),
    ("client", "set_timer", ("timers",)),
    *((server, said, to) for server in GROUPS["Servers"] for said, to in _SAID_BY_SERVERS),
    ("tasks", "created and ended", ("events",)),
    ("elicitations", "asked and expired", ("events",)),
    ("samplings", "asked and expired", ("events",)),
    ("notifications", "received", ("events",)),
    ("timers", "expired", ("events",)),
)
"""Who says what to whom."""


def diagrams() -> dict[str, Any]:
    """Return all diagrams, as the resource has them."""
    drawn = (
        ("proxy_task_states", "What may happen to a task, once a call has become one", _states(TASKS)),
        ("pending_elicitation_states", "What may happen to a server's question to the user", _states(ELICITATIONS)),
        ("pending_sampling_states", "What may happen to a server's question to the model", _states(SAMPLINGS)),
        ("tool_call_lifecycle", "How a call is answered, or becomes a task if it takes too long", _states(CALLS)),
        ("entity_relationships", "What the proxy keeps, and who talks to whom", _entities()),
    )
    return {"diagrams": [{"name": name, "description": what, "mermaid": source} for name, what, source in drawn]}


def _states(table: Table) -> str:
    return "\n".join(["stateDiagram-v2", *(_INDENT + line for line in _lines(table))])


def _lines(table: Table) -> Iterator[str]:
    yield f"[*] --> {table.start} : {table.begins}"
    for (state, _), step in table.steps.items():
        yield f"{state} --> {step.to} : {step.label}"
    for state, label in table.ends.items():
        yield f"{state} --> [*] : {label}"
    for state, inner in table.inner.items():
        yield f"state {state} {{"
        yield from (_INDENT + line for line in _lines(inner))
        yield "}"


def _entities() -> str:
    lines = ["flowchart TB"]
    for group, members in GROUPS.items():
        lines.append(f'{_INDENT}subgraph {group.lower()}_side ["{group}"]')
        lines += [f'{_INDENT * 2}{member}["{label}"]' for member, label in members.items()]
        lines.append(f"{_INDENT}end")
    lines += [f'{_INDENT}{who} -->|"{said}"| {" & ".join(to)}' for who, said, to in TALK]
    return "\n".join(lines)


def read_diagrams(uri: str) -> dict[str, Any] | None:
    """Return the resource at a URI, as `resources/read` has it, if it is this one."""
    if uri not in (DIAGRAMS_URI, ALIAS_URI):
        return None
    text = bytes(encode(diagrams())).decode()
    return {"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]}
