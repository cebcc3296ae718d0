"""Who strangers are, and what they may try with a task that is not theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.security.callers import Caller, Modern, Older, Reply
from tests.security.served import Served

NOT_FOUND = "Failed to retrieve task: Task not found"
MARK = "s3cret"
"""Begins every secret, so that it is found wherever it should not be."""

STRANGERS: dict[str, dict[str, Any]] = {
    "another user of the client": {"user": "bob"},
    "the user by another client": {"client": "other"},
    "another user by another client": {"client": "other", "user": "bob"},
    "the client itself": {"user": None},
    "the user without a client": {"client": None},
    "client and user exchanged": {"client": "ann", "user": "app"},
    "the user in capitals": {"user": "ANN"},
    "the user and a blank": {"user": "ann "},
    "the user and a zero": {"user": "ann\0"},
    "a user that spells out the owner": {"client": "", "user": '["app","ISSUER","ann"]'},
    "a client that goes on as the owner": {"client": 'app","ISSUER","ann', "user": None},
    "a user of every role and scope": {"user": "root", "roles": ["admin"], "scope": "books admin *"},
    "a user that others are said to act for": {"user": "bob", "act": {"sub": "ann"}, "username": "ann"},
}


def stranger(name: str, served: Served) -> str:
    """Return a stranger's token."""
    claims = {
        key: value.replace("ISSUER", served.issuer.name) if isinstance(value, str) else value
        for key, value in STRANGERS[name].items()
    }
    return served.token(**claims)


@dataclass(frozen=True)
class Target:
    """A task of somebody else's that asks something, and all that may be known of it."""

    task_id: str
    key: str


Try = Callable[[Caller, Target], Reply]
ACCEPTED = {"action": "accept", "content": {"name": "mallory"}}


def _ask(method: str) -> Try:
    return lambda caller, target: caller.ask(method, taskId=target.task_id)


def _use(tool: str, **more: Any) -> Try:
    return lambda caller, target: caller.use(tool, task_id=target.task_id, **more)


def _update(caller: Caller, target: Target) -> Reply:
    return caller.ask("tasks/update", taskId=target.task_id, inputResponses={target.key: ACCEPTED})


_TICKETS: dict[str, Try] = {
    "get_task": _use("get_task"),
    "wait_task": _use("wait_task", seconds=50),
    "answer_task": _use("answer_task", content={"name": "mallory"}),
    "answer_task, to a question": lambda caller, target: caller.use(
        "answer_task", task_id=target.task_id, content={"name": "mallory"}, question=target.key
    ),
    "cancel_task": _use("cancel_task"),
}
TRIES: dict[tuple[type[Caller], str], Try] = {
    (Modern, "tasks/get"): _ask("tasks/get"),
    (Modern, "tasks/update"): _update,
    (Modern, "tasks/cancel"): _ask("tasks/cancel"),
    (Older, "tasks/get"): _ask("tasks/get"),
    (Older, "tasks/result"): _ask("tasks/result"),
    (Older, "tasks/cancel"): _ask("tasks/cancel"),
    **{(kind, name): attempt for kind in (Modern, Older) for name, attempt in _TICKETS.items()},
}
"""Everything that takes a task's id and answers with one message, in both generations."""


def named(attempt: tuple[type[Caller], str]) -> str:
    kind, name = attempt
    return f"{kind.generation} {name}"


def check_refused(attempt: tuple[type[Caller], str], reply: Reply) -> None:
    """Check that this is what an unknown task is answered with, to the letter."""
    kind, name = attempt
    if name.startswith("tasks/"):
        assert reply.status == (400 if kind is Modern else 200)
        assert reply.error == {"code": -32602, "message": NOT_FOUND}
    else:
        assert reply.status == 200
        assert reply.error == {"text": NOT_FOUND}
