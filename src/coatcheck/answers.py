"""Answers: how they are put, and whether they fit their question, by the question's own JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from jsonschema import Draft202012Validator, SchemaError, ValidationError
from jsonschema.exceptions import best_match  # pyright: ignore[reportUnknownVariableType]
from msgspec import UNSET

from coatcheck.errors import InvalidAnswer, InvalidArgument, NotAnswered
from coatcheck.payload import Payload, decode, encode
from coatcheck.task import InputRequest, Task


def check(key: str, request: InputRequest, answer: Payload) -> None:
    """Raises InvalidAnswer with the reason if the answer does not satisfy the question's schema."""
    if request.answer_schema is UNSET:
        return
    validator = Draft202012Validator(decode(request.answer_schema))
    errors = validator.iter_errors(decode(answer))  # pyright: ignore[reportUnknownMemberType]
    if worst := cast("ValidationError | None", best_match(errors)):
        where = worst.json_path.removeprefix("$").lstrip(".")
        raise InvalidAnswer(key, f"{where}: {worst.message}" if where else worst.message)


def error(message: str, code: int, data: Any = None) -> Payload:
    """Return what is kept in place of an answer when there was an error instead of one."""
    return encode(["coatcheck:error", {"message": message, "code": code, "data": data}])


def read(answer: Payload) -> Any:
    """Return what was answered.

    Raises:
        NotAnswered: It was an error.
    """
    value: Any = decode(answer)
    match value:
        case ["coatcheck:error", {"message": str(message), "code": int(code), **more}]:
            raise NotAnswered(message, code, more.get("data"))
        case _:
            return value


def request_of(
    method: str, params: Mapping[str, Any], answer_schema: Mapping[str, Any] | None, *, judges_itself: bool = False
) -> InputRequest:
    """Make a question.

    Raises:
        InvalidArgument: It has no JSON form, or its schema is none.
    """
    if answer_schema is not None:
        try:
            Draft202012Validator.check_schema(answer_schema)
        except SchemaError as error:
            raise InvalidArgument(f"The question's schema is not valid JSON Schema: {error.message}") from error
    schema = UNSET if answer_schema is None else encode(answer_schema)
    return InputRequest(method=method, params=encode(params), answer_schema=schema, judges_itself=judges_itself)


def elicitation_answer(content_schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an elicitation's answer: content only where the person accepted."""
    return {
        "type": "object",
        "required": ["action"],
        "properties": {"action": {"enum": ["accept", "decline", "cancel"]}},
        "if": {"properties": {"action": {"const": "accept"}}},
        "then": {"required": ["content"], "properties": {"content": content_schema}},
    }


def open_question(task: Task, question: str | None) -> str:
    """Return the key of the question that is meant: the only one, if nobody says.

    Raises:
        InvalidArgument: It is not open, or there are several.
    """
    keys = list(task.input_requests)
    if question in task.input_requests:
        return str(question)
    if question is None and len(keys) == 1:
        return keys[0]
    asked = ", ".join(keys) if keys else "none"
    raise InvalidArgument(f"Say which question is answered; open in task {task.id}: {asked}.")


def answer_of(request: InputRequest, action: str, content: Mapping[str, Any] | str | None) -> dict[str, Any]:
    """Return an answer in the protocol's words.

    Raises:
        InvalidArgument: What is asked is not answered so.
    """
    match request.method, content:
        case "elicitation/create", Mapping() if action == "accept":
            return {"action": action, "content": dict(content)}
        case "elicitation/create", _:
            return {"action": action}
        case "sampling/createMessage", str():
            said = {"type": "text", "text": content}
            return {"role": "assistant", "model": "unknown", "content": said}
        case _, Mapping():
            return dict(content)
        case _:
            raise InvalidArgument(f"{request.method} is answered with an object as content.")
