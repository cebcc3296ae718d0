"""Everything that can be refused. Wire error codes live in the dialects, not here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_LONGEST_REASON = 300


class CoatcheckError(Exception):
    """Base of every error this library raises on purpose."""


class InvalidArgument(CoatcheckError, ValueError):
    """A caller passed something that cannot be used; nothing was written."""


class InvalidAnswer(InvalidArgument):
    """An answer does not fit its question, which stays open."""

    def __init__(self, key: str, reason: str) -> None:
        if len(reason) > _LONGEST_REASON:  # it may quote all of what came in
            reason = f"{reason[:_LONGEST_REASON]}…"
        super().__init__(f"The answer to {key!r} does not fit the question: {reason}. The question is still open.")
        self.key, self.reason = key, reason


class TooLarge(InvalidArgument):
    """Something has more bytes of JSON than may be kept of it; nothing was written. `size` and `limit` say how many."""

    def __init__(self, what: str, size: int, limit: int, advice: str) -> None:
        """`what` takes them: "The arguments take"; `advice` is what to do instead."""
        super().__init__(f"{what} {size} bytes of JSON, but at most {limit} are allowed; {advice}.")
        self.what, self.size, self.limit, self.advice = what, size, limit, advice

    def __reduce__(self) -> tuple[type[TooLarge], tuple[str, int, int, str]]:
        """It is raised in processes of tools as well."""
        return TooLarge, (self.what, self.size, self.limit, self.advice)


class IdempotencyConflict(InvalidArgument):
    """The idempotency key already stands for another call."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Idempotency key {key!r} was already used for a different call; "
            "use a new key, or repeat the same tool and arguments."
        )
        self.key = key


class QuotaExceeded(CoatcheckError):
    """There are as many unfinished tasks of an owner, or of all without one, as there may be; nothing was written."""

    def __init__(self, quota: int, owner: str | None) -> None:
        whose = "There are already" if owner is None else "You already have"
        super().__init__(f"{whose} {quota} unfinished tasks, the most allowed; wait for one to finish or cancel one.")
        self.quota = quota


class TooOften(CoatcheckError):
    """There were too many calls in too little time; nothing was written. `retry_after`: in how many seconds to try."""

    def __init__(self, what: str, allowed: str, retry_after: float) -> None:
        super().__init__(f"{what} {allowed}; try again in {math.ceil(retry_after)} s.")
        self.retry_after = retry_after


class Forbidden(CoatcheckError):
    """The caller may not do this, whatever state it is in; nothing was written."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"You may not use the {kind} {name!r}; ask whoever runs this server for the right to.")
        self.kind, self.name = kind, name


class AnsweredOtherwise(CoatcheckError):
    """A call of your own code was to be a task, and a middleware answered it. `answer`: with what."""

    def __init__(self, name: str, answer: object) -> None:
        super().__init__(
            f"A middleware answered the call of {name!r} itself, so there is no task; take its `answer`, or call "
            "without task_meta."
        )
        self.answer = answer


class TaskNotFound(CoatcheckError):
    """No such task for this caller: missing, expired and foreign look the same."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"Task {task_id} not found")
        self.task_id = task_id


class Refused(CoatcheckError):
    """The task's state does not allow this event."""


class AlreadyFinished(Refused):
    """The task is terminal; nothing changes it any more."""

    def __init__(self, task_id: str, status: str) -> None:
        super().__init__(f"Task {task_id} is already {status}")
        self.task_id, self.status = task_id, status


class LeaseLost(Refused):
    """The reporting worker no longer holds the task."""


class NotAnswered(CoatcheckError):
    """Whoever was asked answered with an error, which is now the work's to deal with."""

    def __init__(self, message: str, code: int = -32603, data: object = None) -> None:
        super().__init__(message)
        self.message, self.code, self.data = message, code, data


class ToolFailed(CoatcheckError):
    """Raised by a tool to end its task as failed, with an error code and data of its own.

    And by a client, where a call has ended so. `result`: what the tool had to say, if it was not an error of the
    protocol.
    """

    def __init__(self, message: str, code: int | None = None, data: object = None, result: object = None) -> None:
        super().__init__(message)
        self.message, self.code, self.data, self.result = message, code, data, result


class StoreError(CoatcheckError):
    """The store cannot do what it was asked; the message says what to do about it."""


class BadStoreURL(StoreError, InvalidArgument):
    """The URL names no store this library knows."""


class StoreUnavailable(StoreError):
    """The store cannot be reached, read or written just now."""


class StoreUnusable(StoreError):
    """What the store holds is not ours, is damaged, or comes from a newer version. It was not touched."""


class KeyRefused(StoreError):
    """The encryption key is missing, malformed, or not the one the data was sealed with."""


# Towards servers, as their client


class CannotConnect(CoatcheckError):
    """There is no MCP server to be had where one was looked for, or no longer."""


class NotAuthorized(CannotConnect):
    """The server does not accept the credentials it was given, or wants some."""

    def __init__(self, where: str, status: int) -> None:
        what = "wants to know who you are" if status == 401 else "does not let you in"
        super().__init__(f"{where} {what} (HTTP {status}); pass a token that it accepts.")
        self.status = status


class ServerError(CoatcheckError):
    """The server answered with an error of the protocol."""

    def __init__(self, message: str, code: int, data: object = None) -> None:
        super().__init__(f"The server answered: {message} ({code})")
        self.message, self.code, self.data = message, code, data


class ProtocolViolation(CoatcheckError):
    """The server answered with something that cannot be understood as an answer. `result`: what it was, if known."""

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result = result


class UnknownTool(InvalidArgument):
    """The server has no such tool."""

    def __init__(self, tool: str, known: Sequence[str] = ()) -> None:
        names = f"; it has {', '.join(sorted(known))}" if known else ""
        super().__init__(f"The server has no tool {tool!r}{names}.")
        self.tool = tool


class Interrupted(CoatcheckError):
    """The connection was lost during a call that is no task: nobody can tell whether it was carried out."""

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(
            f"The connection was lost while {tool!r} was called ({reason}), and the server keeps no tasks that could "
            "tell whether it was carried out; look before you call it again."
        )
        self.tool = tool


class TaskCancelled(CoatcheckError):
    """The task was cancelled, so there is no result."""

    def __init__(self, task_id: str, message: str | None = None) -> None:
        super().__init__(f"Task {task_id} was cancelled{f': {message}' if message else ''}")
        self.task_id = task_id


class TaskLost(CoatcheckError):
    """The server does not have the task any more, so its result cannot be had."""

    def __init__(self, task_id: str, reason: str) -> None:
        super().__init__(f"Task {task_id} is lost: {reason}")
        self.task_id = task_id


class InputRequired(CoatcheckError):
    """The task asks something that nobody here can answer. It waits."""

    def __init__(self, task_id: str, questions: Mapping[str, object]) -> None:
        super().__init__(
            f"Task {task_id} asks {len(questions)} question{'' if len(questions) == 1 else 's'} "
            f"({', '.join(sorted(questions))}) and waits; answer it, or give the client a callback that does."
        )
        self.task_id, self.questions = task_id, questions
