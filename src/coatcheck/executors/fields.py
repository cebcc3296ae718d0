"""Where in an API's JSON the parts of a job are found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from coatcheck.executor import JobError, JobQuestion, JobState, JobStatus
from coatcheck.task import Progress

STATES: Mapping[str, JobState] = {
    **dict.fromkeys(("queued", "pending", "running"), JobState.RUNNING),
    "succeeded": JobState.SUCCEEDED,
    "failed": JobState.FAILED,
    "cancelled": JobState.CANCELLED,
}
_LONGEST_NAME = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Paths, with dots between the names. What is not there, or of another type, is left out."""

    id: str = "id"
    state: str = "state"
    states: Mapping[str, JobState] = field(default_factory=lambda: STATES)
    """What the API's words mean, in small letters. A word that is not here means that the job runs."""
    done: str = "progress.done"
    total: str = "progress.total"
    message: str = "message"
    result: str = "result"
    error: str = "error.message"
    code: str = "error.code"
    data: str = "error.data"
    questions: str = "questions"

    def job_id(self, said: Any) -> str | None:
        """Return the id of a job; None if there is none, or none that can be part of an address."""
        found = at(said, self.id)
        job_id = str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""
        return job_id if _is_name(job_id) else None

    def status(self, said: Any) -> JobStatus:
        word = at(said, self.state)
        state = self.states.get(word.lower()) if isinstance(word, str) else None
        message = _text(at(said, self.message))
        if state is None:
            message = f"The job is in a state that is not known here: {word!r:.60}"
        return JobStatus(
            state=state or JobState.RUNNING,
            progress=self._progress(said),
            message=message,
            result=at(said, self.result) if state is JobState.SUCCEEDED else None,
            error=self.failure(said) if state is JobState.FAILED else None,
            questions=_questions(at(said, self.questions)) if state is JobState.RUNNING else {},
        )

    def failure(self, said: Any) -> JobError | None:
        """Return what an answer says of an error."""
        message, code = _text(at(said, self.error)), at(said, self.code)
        if message is None:
            return None
        is_code = isinstance(code, int | str) and not isinstance(code, bool)
        return JobError(message=message, code=code if is_code else None, data=at(said, self.data))

    def _progress(self, said: Any) -> Progress | None:
        done, total = _number(at(said, self.done)), _number(at(said, self.total))
        return None if done is None else Progress(done=done, total=total)


def at(said: Any, path: str) -> Any:
    """Return what is at a path; None if there is nothing. A number stands for a place in a list."""
    for name in path.split("."):
        match said:
            case dict():
                said = cast("dict[str, Any]", said).get(name)
            case list() if name.isdecimal() and int(name) < len(cast("list[Any]", said)):
                said = cast("list[Any]", said)[int(name)]
            case _:
                return None
    return said


def _is_name(text: str) -> bool:
    """Whether it can be a part of an address, where dots alone lead elsewhere."""
    return 0 < len(text) <= _LONGEST_NAME and text.strip(".") != "" and text.isprintable()


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if 0 <= number < math.inf else None


def _questions(value: Any) -> dict[str, JobQuestion]:
    asked = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return {
        key: JobQuestion(message=message, schema=cast("dict[str, Any]", schema))
        for key, question in asked.items()
        if _is_name(key)
        and isinstance(message := at(question, "message"), str)
        and isinstance(schema := at(question, "schema"), dict)
    }
