"""The states of what the proxy keeps, as tables: the code goes by them, and the diagrams are drawn from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from coatcheck.dialects.words import EXPIRED
from coatcheck.errors import Refused
from coatcheck.lifecycle import (
    Cancelled,
    Claimed,
    Completed,
    Event,
    Failed,
    InputProvided,
    InputRequested,
    InputWithdrawn,
    Noted,
    Recorded,
    Released,
    Renewed,
    Stalled,
    WorkerLost,
    advance,
)
from coatcheck.payload import encode
from coatcheck.task import Failure, InputRequest, Progress, Status, Task, ToolCall


class Step(msgspec.Struct, frozen=True):
    """Where an event leads, and what a diagram says of it."""

    to: str
    label: str


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """What may happen to one kind of thing, and nothing else may."""

    name: str
    start: str
    begins: str
    """What a diagram says of how it comes to be."""
    steps: Mapping[tuple[str, str], Step]
    """By state and event."""
    ends: Mapping[str, str]
    """The states that are final, and what a diagram says of what comes then."""
    inner: Mapping[str, Table] = {}
    """States that have a table of their own."""


def settle(table: Table, state: str, event: str) -> str:
    """Return the state after an event.

    Raises:
        Refused: The table does not have it.
    """
    step = table.steps.get((state, event))
    if step is None:
        when = f"is already {state}" if state in table.ends else f"is {state}"
        raise Refused(f"The {table.name} {when}, so this cannot be done: {event}.")
    return step.to


# What servers ask


class RequestEvent(StrEnum):
    """What may happen to a question that a server has asked."""

    ACCEPT = "accept"
    DECLINE = "decline"
    CANCEL = "cancel"
    COMPLETE = "complete"
    WITHDRAW = "withdraw"
    """The client wants no more of it, and does not answer."""
    EXPIRE = "expire"
    RETRACT = "retract"
    """The server no longer wants to know."""
    DISCONNECT = "disconnect"
    LEAVE = "leave"
    """The client's session ends."""


_LOST = {
    ("pending", RequestEvent.EXPIRE): Step("expired", "nobody answered in time"),
    ("pending", RequestEvent.RETRACT): Step("rejected", "server takes it back"),
    ("pending", RequestEvent.DISCONNECT): Step("rejected", "connection to the server is lost"),
    ("pending", RequestEvent.LEAVE): Step("rejected", "session of the client ends"),
}

ELICITATIONS = Table(
    name="elicitation",
    start="pending",
    begins="server sends elicitation/create",
    steps={
        ("pending", RequestEvent.ACCEPT): Step("accepted", "respond_to_elicitation with accept"),
        ("pending", RequestEvent.DECLINE): Step("declined", "respond_to_elicitation with decline"),
        ("pending", RequestEvent.CANCEL): Step("cancelled", "respond_to_elicitation with cancel"),
        ("pending", RequestEvent.WITHDRAW): Step("cancelled", "cancel_elicitation_request"),
        **_LOST,
    },
    ends={
        "accepted": "server has the content",
        "declined": "server is told",
        "cancelled": "server is told",
        "expired": "server gets an error",
        "rejected": "server gets an error, if it is still there",
    },
)

SAMPLINGS = Table(
    name="sampling request",
    start="pending",
    begins="server sends sampling/createMessage",
    steps={
        ("pending", RequestEvent.COMPLETE): Step("completed", "respond_to_sampling"),
        ("pending", RequestEvent.WITHDRAW): Step("rejected", "cancel_sampling_request"),
        **_LOST,
    },
    ends={
        "completed": "server has the message",
        "expired": "server gets an error",
        "rejected": "server gets an error, if it is still there",
    },
)


# Tasks


def task_status(task: Task) -> str:
    """Return a task's status in the words of the meta tools: no input_required, but expired."""
    if task.failure and task.failure.code == EXPIRED:
        return "expired"
    return (Status.WORKING if task.status is Status.INPUT_REQUIRED else task.status).value


_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_SOON = _NOW + timedelta(seconds=20)
_CLAIM = Claimed("w", _SOON)
_QUESTION = {"q": InputRequest(method="elicitation/create", params=encode({}))}
_ASK = InputRequested(1, _QUESTION, timedelta(days=1))
_NO_RESULT = Failure(message="")
HAPPENINGS: Mapping[str, tuple[Event, str]] = {
    "claim": (_CLAIM, "taken up"),
    "renew": (Renewed(1, _SOON), "still held"),
    "note": (Noted(1, None, Progress(done=1)), "progress"),
    "record": (Recorded(1, ()), "output"),
    "ask": (_ASK, "server asks something"),
    "withdraw": (InputWithdrawn(1, ("q",)), "server takes it back"),
    "answer": (InputProvided({"q": encode({})}), "client answers"),
    "release": (Released(1), "given back"),
    "stall": (Stalled(_SOON), "nothing heard"),
    "complete": (Completed(1, encode({})), "server returns a result"),
    "complete with error": (Completed(1, encode({}), is_error=True), "server returns a tool error"),
    "fail": (Failed(1, _NO_RESULT), "server answers with a protocol error"),
    "disconnect": (Failed(1, _NO_RESULT), "connection to the server is lost"),
    "lose": (WorkerLost(1, "", dead_worker="w"), "the proxy that held it is gone"),
    "cancel": (Cancelled(), "cancel_task"),
    "expire": (Failed(1, Failure(message="", code=EXPIRED)), "its time is up"),
}
"""Whatever may happen to a task of the proxy, and the event it is to `lifecycle.advance`."""


def _tasks_to_try() -> Iterator[Task]:
    """A task in every state a working one can be in: waiting, held, asking."""
    waiting = Task(
        id="t",
        owner=None,
        call=ToolCall(tool="t"),
        created_at=_NOW,
        updated_at=_NOW,
        expires_at=None,
        poll_interval=timedelta(seconds=1),
    )
    held = advance(waiting, _CLAIM, _NOW)
    yield from (waiting, held, advance(held, _ASK, _NOW))


def _task_steps() -> dict[tuple[str, str], Step]:
    """Ask `advance` what becomes of a task; what leaves its status as it is, or is refused, is no step."""
    steps: dict[tuple[str, str], Step] = {}
    for name, (event, label) in HAPPENINGS.items():
        for task in _tasks_to_try():
            with suppress(Refused):
                before, after = task_status(task), task_status(advance(task, event, _NOW))
                if after != before:
                    steps[before, name] = Step(after, label)
    return steps


TASKS = Table(
    name="task",
    start="working",
    begins="execute_tool takes longer than its timeout",
    steps=_task_steps(),
    ends={
        "completed": "forgotten after a while",
        "failed": "forgotten after a while",
        "cancelled": "forgotten after a while",
        "expired": "result is dropped, the reason kept for a while",
    },
)

CALLS = Table(
    name="call",
    start="in_flight",
    begins="execute_tool",
    steps={
        ("in_flight", "answer"): Step("returned_result", "server answers in time"),
        ("in_flight", "disconnect"): Step("returned_error", "connection to the server is lost"),
        ("in_flight", "promote"): Step("promoted_to_task", "timeout is over"),
        ("promoted_to_task", "keep"): Step("task", "call goes on, the client has a task"),
    },
    ends={
        "returned_result": "client has the result, there is no task",
        "returned_error": "client has the error, there is no task",
        "task": "forgotten with the task",
    },
    inner={"task": TASKS},
)
