"""What the matrix expects: which way a call goes, and what is seen on that way. Read it from the top.

A cell is a client, a tool's mode, what the tool does, and a transport. `WAYS` says which way the call goes, by client
and mode; `OUTCOMES` what a tool says by itself; the three tables below what the client sees of that as a task of
2025-11-25, as a task of 2026-07-28, and as a held call. Where a transport makes a difference, it is said at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from tests.matrix.clients import CLIENTS, EXTENSION, NAME, Client

Mode = Literal["forbidden", "optional", "required"]
Outcome = Literal["ok", "isError", "raises", "protocol-error", "cancelled", "asks"]
Transport = Literal["memory", "stdio", "http-sse", "http-json"]
Way = Literal["plain", "plain, not a task", "task 2025", "task 2026", "held", "refused"]

MODES: tuple[Mode, ...] = get_args(Mode)
TRANSPORTS: tuple[Transport, ...] = get_args(Transport)

# Who becomes a task

WAYS: dict[str, dict[Mode, Way]] = {
    "2025-11-25": {"forbidden": "plain, not a task", "optional": "task 2025", "required": "task 2025"},
    "2026-07-28": {"forbidden": "plain", "optional": "task 2026", "required": "task 2026"},
    "2025-06-18": {"forbidden": "plain", "optional": "held", "required": "refused"},
    "2026-07-28-no-tasks": {"forbidden": "plain", "optional": "held", "required": "refused"},
}
"""plain: as the SDK alone answers it, to the letter, whatever the tool does. "not a task": and with a `task` in the
call it is refused. held: the SDK's answer too, or a ticket. refused: nothing runs."""

PROTOCOL_ERROR = -32050
NOT_FOUND, BAD_PARAMS, NEEDS_CAPABILITY, REQUEST_CANCELLED = -32601, -32602, -32021, -32800
REFUSALS: dict[str, dict[str, Any]] = {
    "2025-11-25": {"code": NOT_FOUND},
    "2025-06-18": {"code": NOT_FOUND},
    "2026-07-28-no-tasks": {
        "code": NEEDS_CAPABILITY,
        "data": {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
    },
}

# What the tools say


@dataclass(frozen=True)
class Said:
    """A result of one text, or an error; `{label}` is the call's own word, `{tool}` the tool's name."""

    text: str
    is_error: bool = False
    is_structured: bool = True
    code: int | None = None
    """It is a JSON-RPC error."""


OUTCOMES: dict[Outcome, Said | None] = {
    "ok": Said("{label} is done"),
    "isError": Said("{label} went wrong", is_error=True, is_structured=False),
    "raises": Said("Error executing tool {tool}", is_error=True, is_structured=False),
    "protocol-error": Said("{label} is refused", code=PROTOCOL_ERROR),
    "cancelled": None,
    "asks": Said(f"{{label}} is for {NAME}"),
}

QUESTION: dict[str, Any] = {
    "mode": "form",
    "message": "Who is {label} for?",
    "requestedSchema": {
        "title": "Name",
        "type": "object",
        "properties": {"name": {"title": "Name", "type": "string"}},
        "required": ["name"],
    },
}
"""The params of the `elicitation/create` of a tool that asks, whichever way it comes."""

# As a task of 2025-11-25: its statuses, in `notifications/tasks/status` and `tasks/get`, and what `tasks/result` is


@dataclass(frozen=True)
class Task:
    statuses: tuple[str, ...]
    """From the first to the last."""
    ends_with: Literal["result", "error", "nothing", "cancellation"]
    message: str | None = None
    """The status message in the end, if it is a certain one."""


TASKS_2025: dict[Outcome, Task] = {
    "ok": Task(("working", "completed"), "result"),
    "isError": Task(("working", "failed"), "result", "{label} went wrong"),
    "raises": Task(("working", "failed"), "result", "Error executing tool {tool}"),
    "protocol-error": Task(("working", "failed"), "error", "{label} is refused"),
    "cancelled": Task(("working", "cancelled"), "cancellation"),
    "asks": Task(("working", "input_required", "working", "completed"), "result"),
}

# As a task of 2026-07-28: the same in `notifications/tasks`, and what `tasks/get` has in the end

TASKS_2026: dict[Outcome, Task] = {
    "ok": Task(("working", "completed"), "result"),
    "isError": Task(("working", "completed"), "result"),
    "raises": Task(("working", "completed"), "result"),
    "protocol-error": Task(("working", "failed"), "error", "{label} is refused"),
    "cancelled": Task(("working", "cancelled"), "nothing"),
    "asks": Task(("working", "input_required", "working", "completed"), "result"),
}

# As a held call of a client without tasks

Held = Literal[
    "the plain answer",
    "a ticket to cancel",
    "a ticket to answer",
    "a question, then the plain answer",
    "a round of the call, then the plain answer",
]

HELD: dict[Outcome, Held] = {
    "ok": "the plain answer",
    "isError": "the plain answer",
    "raises": "the plain answer",
    "protocol-error": "the plain answer",
    "cancelled": "a ticket to cancel",
    "asks": "a ticket to answer",
}


def held(client: Client, outcome: Outcome, transport: Transport) -> Held:
    """Who can be asked directly, is: since 2026-07-28 by the answer, before that where the answer is a stream."""
    if outcome != "asks":
        return HELD[outcome]
    if client.is_modern:
        return "a round of the call, then the plain answer"
    return HELD[outcome] if transport == "http-json" else "a question, then the plain answer"


# What is sent to a client without being asked for

UNASKED: dict[str, set[str]] = {
    "2025-11-25": {"notifications/tasks/status", "elicitation/create"},
    "2026-07-28": {"notifications/subscriptions/acknowledged", "notifications/tasks"},
    "2025-06-18": {"elicitation/create"},
    "2026-07-28-no-tasks": set(),
}

# What transports do

QUESTIONS_ON: dict[Transport, Literal["the one there is", "its own", "the standing one"]] = {
    "memory": "the one there is",
    "stdio": "the one there is",
    "http-sse": "its own",
    "http-json": "the standing one",
}
"""On which stream a request is told what belongs to it, before 2026-07-28."""


def cancels(client: Client, transport: Transport) -> Literal["silence", "an error", "nothing"]:
    """Return what comes of cancelling a plain call, as the SDK has it.

    The body is stopped, and the request is never answered; over HTTP, before 2026-07-28, it is, with an error. Since
    then a client hangs up instead, and the SDK does not notice that if its answer would not have been a stream.
    """
    if not transport.startswith("http"):
        return "silence"
    if not client.is_modern:
        return "an error"
    return "nothing" if transport == "http-json" else "silence"


# Cells


@dataclass(frozen=True)
class Cell:
    client: Client
    mode: Mode
    outcome: Outcome
    transport: Transport

    @property
    def name(self) -> str:
        return f"{self.client.name}-{self.mode}-{self.outcome}-{self.transport}"

    @property
    def way(self) -> Way:
        return WAYS[self.client.name][self.mode]

    @property
    def tool(self) -> str:
        return tool_name(self.mode, self.outcome)

    @property
    def question(self) -> dict[str, Any]:
        return {**QUESTION, "message": self.words(QUESTION["message"])}

    def words(self, text: str) -> str:
        return text.format(label=self.name, tool=self.tool)


CELLS = [
    Cell(client, mode, outcome, transport)
    for transport in TRANSPORTS
    for client in CLIENTS.values()
    for mode in MODES
    for outcome in OUTCOMES
]


def tool_name(mode: Mode, outcome: Outcome) -> str:
    return f"{mode}_{outcome.replace('-', '_')}"
