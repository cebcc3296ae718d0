"""How large may be what is kept of a task. Whatever is counted here is encoded already, so it costs a comparison."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from coatcheck import answers
from coatcheck.errors import TooLarge
from coatcheck.lifecycle import Completed, Failed, InputRequested, Noted, WorkerEvent
from coatcheck.payload import Payload, encode
from coatcheck.policy import Policy
from coatcheck.task import Failure, InputRequest, Task, ToolCall

LONGEST_MESSAGE = 10_000
"""Characters of a message. They go with every poll and every page of a listing."""


def check_call(call: ToolCall, policy: Policy) -> None:
    """Refuse a call that brings too much.

    Raises:
        TooLarge: It does.
    """
    limit = policy.max_arguments
    if limit is None:
        return
    if len(call.arguments) > limit:
        raise TooLarge("The arguments take", len(call.arguments), limit, "pass a link to large data instead")
    for more in (call.meta, call.identity):
        if more is not UNSET and len(more) > limit:
            raise TooLarge("What comes with the call takes", len(more), limit, "leave out of its _meta what is large")


def check_answer(key: str, answer: Payload, policy: Policy) -> None:
    """Raises TooLarge if the answer to the question `key` is."""
    limit = policy.max_answer
    if limit is not None and len(answer) > limit:
        advice = "answer with a link, or with less; the question is still open"
        raise TooLarge(f"The answer to {key!r} takes", len(answer), limit, advice)


def check_journal(task: Task, policy: Policy) -> None:
    """Raises TooLarge if all that a task has recorded and put out is too much together."""
    limit = policy.max_journal
    if limit is not None and task.journal_size > limit:
        advice = "record where large data is rather than the data, or split the work into several tasks"
        raise TooLarge("With this the task's journal would take", task.journal_size, limit, advice)


def bounded(event: WorkerEvent, policy: Policy) -> WorkerEvent:
    """Return what a worker says of its task as it may be kept: messages cut, and a failure for what is too large.

    Raises:
        TooLarge: A question is, which its tool can be told.
    """
    match event:
        case Noted(attempt, str(message), progress) if len(message) > LONGEST_MESSAGE:
            return Noted(attempt, brief(message), progress)
        case InputRequested(_, requests):
            for request in requests.values():
                _check_question(request, policy)
        case Completed(attempt, result, _, keep) if _is_beyond(result, policy.max_result):
            return Failed(attempt, _no_result(len(result), policy.max_result), keep)
        case Failed(attempt, failure, keep):
            return Failed(attempt, _fitting(failure, policy.max_result), keep)
        case _:
            pass
    return event


def fitting_error(message: str, code: int, data: Any, policy: Policy) -> Payload:
    """Return what is kept in place of an answer when there was an error: without its data if they are too large."""
    payload = answers.error(brief(message), code, data)
    return answers.error(brief(message), code) if _is_beyond(payload, policy.max_answer) else payload


def brief(message: str) -> str:
    """Return a message, cut if it is far longer than one."""
    return message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 1]}…"


def _check_question(request: InputRequest, policy: Policy) -> None:
    size = len(request.params) + (0 if request.answer_schema is UNSET else len(request.answer_schema))
    if policy.max_answer is not None and size > policy.max_answer:
        raise TooLarge("The question takes", size, policy.max_answer, "ask with a link to what is large")


def _no_result(size: int, limit: int | None) -> Failure:
    error = TooLarge("The tool's result takes", size, limit or 0, "return a link, or fewer rows")
    return Failure(message=str(error), data=_said(error))


def _fitting(failure: Failure, limit: int | None) -> Failure:
    message, data = brief(failure.message), failure.data
    if data is not UNSET and _is_beyond(data, limit):
        error = TooLarge("Its data take", len(data), limit or 0, "they were left out")
        message, data = f"{message} ({error})", _said(error)
    return Failure(message=message, code=failure.code, data=data)


def _said(error: TooLarge) -> Payload:
    return encode({"bytes": error.size, "limit": error.limit})


def _is_beyond(payload: Payload, limit: int | None) -> bool:
    return limit is not None and len(payload) > limit
