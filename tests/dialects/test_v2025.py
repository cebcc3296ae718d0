"""How a task looks in 2025-11-25: golden JSON for every status, made of rows."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from coatcheck.dialects.v2025 import (
    IMMEDIATE_RESPONSE,
    error_of,
    related,
    status,
    write_created,
    write_result,
    write_seen,
    write_task,
)
from coatcheck.payload import encode
from coatcheck.task import Failure, InputRequest, Lease, Progress, Status, Task
from coatcheck.testing.builders import NOW, a_task
from tests.requirements.marks import requirement

TEXT: dict[str, Any] = {"type": "text", "text": "caf\u00e9"}
RESULT: dict[str, Any] = {"content": [TEXT], "structuredContent": {"a": None}, "isError": False}
REPORT: dict[str, Any] = {"content": [{"type": "image", "data": "", "mimeType": "a/b"}, TEXT], "isError": True}
QUESTION: dict[str, Any] = {"mode": "form", "message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
PROGRESS = "coatcheck/progress"
META = {"io.modelcontextprotocol/related-task": {"taskId": "a"}}


def a_row(**changes: Any) -> Task:
    """Return a task that some worker holds, with `changes`."""
    given = {"lease": Lease(worker="w", until=NOW), "attempt": 1, "updated_at": NOW + timedelta(seconds=1), **changes}
    return msgspec.structs.replace(a_task(), **given)


def ended(how: Status, **changes: Any) -> Task:
    return a_row(status=how, lease=None, **changes)


ROWS: dict[str, Task] = {
    "working": a_row(status_message="Half done"),
    "input_required": a_row(
        status=Status.INPUT_REQUIRED,
        input_requests={"a#1": InputRequest(method="elicitation/create", params=encode(QUESTION))},
        input_responses={"c#1": encode({"action": "decline"})},
    ),
    "completed": ended(Status.COMPLETED, result=encode(RESULT)),
    "failed": ended(Status.FAILED, failure=Failure(message="Too fast", code=-32050, data=encode({"retry": [1, None]}))),
    "cancelled": ended(Status.CANCELLED, status_message="Enough"),
}
REPORTED = ended(Status.COMPLETED, result=encode(REPORT), is_error=True)
"""A tool's own error report."""
COMMON = {
    "taskId": "a",
    "createdAt": "2026-01-01T00:00:00Z",
    "lastUpdatedAt": "2026-01-01T00:00:01Z",
    "ttl": 3_600_000,
    "pollInterval": 1000,
}
MESSAGES: dict[str, dict[str, str]] = {
    "working": {"statusMessage": "Half done"},
    "input_required": {"statusMessage": "Waiting for an answer"},
    "completed": {},
    "failed": {"statusMessage": "Too fast"},
    "cancelled": {"statusMessage": "Enough"},
}


# The task


@requirement("F-026", "F-044", "R-16", "F-039")
@pytest.mark.parametrize("name", ROWS)
def test_a_task_is_flat_and_has_no_payload(name: str) -> None:
    assert write_task(ROWS[name]) == {"status": name, **COMMON, **MESSAGES[name]}


@requirement("R-01", "F-041", "E-030", "E-033")
def test_a_tools_own_error_report_is_a_failure_with_its_first_text() -> None:
    assert status(REPORTED) is Status.FAILED
    assert write_task(REPORTED) == {"status": "failed", **COMMON, "statusMessage": "caf\u00e9"}


@requirement("E-033")
@pytest.mark.parametrize("content", [[], [{"type": "image", "data": "", "mimeType": "a/b"}]], ids=["none", "image"])
def test_an_error_report_without_a_text_says_what_the_work_said_last(content: list[Any]) -> None:
    report = encode({"content": content, "isError": True})
    row = ended(Status.COMPLETED, result=report, is_error=True, status_message="Copying")
    assert write_task(row)["statusMessage"] == "Copying"
    assert "statusMessage" not in write_task(msgspec.structs.replace(row, status_message=None))


@requirement("F-025", "G-004")
@pytest.mark.parametrize("name", ROWS)
def test_a_creation_has_the_task_and_a_sentence_for_the_model(name: str) -> None:
    created = write_created(ROWS[name])
    hint = created["_meta"].pop(IMMEDIATE_RESPONSE)
    assert created == {"task": write_task(ROWS[name]), "_meta": {}}
    assert ROWS[name].call.tool in hint
    assert "task a" in hint


@requirement("X-08", "G-004")
@pytest.mark.parametrize("name", ["completed", "failed", "cancelled"])
def test_a_model_is_not_told_to_wait_for_what_has_ended(name: str) -> None:
    assert "still running" not in write_created(ROWS[name])["_meta"][IMMEDIATE_RESPONSE]


@requirement("G-018")
def test_an_unlimited_lifetime_is_said_to_be_null() -> None:
    written = write_task(a_row(expires_at=None))
    assert "ttl" in written
    assert written["ttl"] is None


@requirement("R-12", "G-019")
def test_a_lifetime_is_counted_from_creation_and_may_have_grown() -> None:
    assert write_task(a_row(expires_at=NOW + timedelta(days=7)))["ttl"] == 7 * 86_400_000


@requirement("R-16")
def test_milliseconds_are_whole_numbers() -> None:
    row = a_row(poll_interval=timedelta(seconds=0.1234567), expires_at=NOW + timedelta(microseconds=1_500_999))
    assert (write_task(row)["ttl"], write_task(row)["pollInterval"]) == (1500, 123)


def test_a_poll_interval_is_never_told_as_zero() -> None:
    assert write_task(a_row(poll_interval=timedelta(microseconds=1)))["pollInterval"] == 1


@pytest.mark.parametrize("moment", [NOW, NOW + timedelta(microseconds=1)])
def test_times_are_iso_8601_in_utc(moment: datetime) -> None:
    written = write_task(a_row(created_at=moment, updated_at=moment))
    assert written["createdAt"] == written["lastUpdatedAt"]
    assert written["createdAt"].endswith("Z")
    assert datetime.fromisoformat(written["createdAt"]) == moment


@requirement("R-16", "R-17", "G-007")
@pytest.mark.parametrize("name", ROWS)
def test_there_are_no_names_of_the_new_generation_and_no_related_task(name: str) -> None:
    assert not {"ttlMs", "pollIntervalMs", "resultType", "inputRequests", "_meta"} & write_task(ROWS[name]).keys()


@requirement("R-19", "E-022")
@pytest.mark.parametrize(
    ("message", "progress", "said"),
    [
        (None, Progress(done=2, total=None), "2"),
        (None, Progress(done=2, total=5), "2 of 5"),
        ("Copying", Progress(done=0.5, total=1), "Copying (0.5 of 1)"),
        ("Copying", None, "Copying"),
    ],
)
def test_progress_is_told_in_the_status_message(message: str | None, progress: Progress | None, said: str) -> None:
    assert write_task(a_row(status_message=message, progress=progress))["statusMessage"] == said


@requirement("R-19")
@pytest.mark.parametrize(
    ("progress", "said"),
    [
        (Progress(done=2, total=5), {"progress": 2, "total": 5}),
        (Progress(done=0.5, total=None), {"progress": 0.5}),
        (Progress(done=0, total=0), {"progress": 0, "total": 0}),
    ],
)
def test_progress_is_told_in_numbers_where_a_task_is_told_by_itself(progress: Progress, said: dict[str, Any]) -> None:
    row = a_row(progress=progress)
    assert write_seen(row) == {**write_task(row), "_meta": {PROGRESS: said}}


@requirement("R-19")
@pytest.mark.parametrize("name", ["completed", "failed", "cancelled"])
def test_a_finished_task_does_not_tell_how_far_it_was(name: str) -> None:
    row = msgspec.structs.replace(ROWS[name], progress=Progress(done=1, total=2))
    assert write_seen(row) == write_task(row)


@requirement("R-19")
def test_progress_in_numbers_is_neither_in_lists_nor_in_creations() -> None:
    row = a_row(progress=Progress(done=1, total=2))
    assert PROGRESS not in json.dumps([write_task(row), write_created(row)])


@requirement("R-29")
def test_a_task_that_waits_for_its_first_worker_says_so() -> None:
    assert write_task(a_task())["statusMessage"] == "Waiting for a worker"


# The result


@requirement("F-028", "F-029", "E-034")
@pytest.mark.parametrize("result", [RESULT, {"content": []}, {"content": [], "_meta": {"k": 1}}, {}], ids=str)
def test_a_result_is_what_the_call_would_have_returned_and_names_its_task(result: dict[str, Any]) -> None:
    row = ended(Status.COMPLETED, result=encode(result))
    assert write_result(row) == {**result, "_meta": {**result.get("_meta", {}), **META}}
    assert error_of(row) is None


@requirement("F-028", "E-030", "R-01")
def test_a_tools_own_error_report_is_a_result() -> None:
    assert error_of(REPORTED) is None
    assert write_result(REPORTED) == {**REPORT, "_meta": META}


@requirement("F-029")
def test_a_result_with_a_strange_meta_still_names_its_task() -> None:
    row = ended(Status.COMPLETED, result=encode({"content": [], "_meta": None}))
    assert write_result(row)["_meta"] == META


# The error


def wire(row: Task) -> dict[str, Any]:
    return json.loads(msgspec.json.encode(error_of(row)))


@requirement("R-02", "F-042", "E-031", "E-035")
def test_an_error_is_the_one_the_call_ended_with_and_names_its_task() -> None:
    data = {"retry": [1, None], "_meta": META}
    assert wire(ROWS["failed"]) == {"code": -32050, "message": "Too fast", "data": data}


@requirement("R-02", "E-035")
@pytest.mark.parametrize("data", [None, [], "text", 0, False], ids=repr)
def test_data_that_has_no_room_for_the_task_is_left_as_it_is(data: object) -> None:
    row = ended(Status.FAILED, failure=Failure(message="m", code=1, data=encode(data)))
    assert wire(row) == {"code": 1, "message": "m", "data": data}


@requirement("E-035")
def test_data_that_has_a_meta_keeps_it() -> None:
    row = ended(Status.FAILED, failure=Failure(message="m", code=1, data=encode({"_meta": {"k": 1}})))
    assert wire(row)["data"] == {"_meta": {"k": 1, **META}}


@requirement("E-055")
def test_a_failure_without_a_code_is_an_internal_error() -> None:
    row = ended(Status.FAILED, failure=Failure(message="The worker was lost"))
    assert wire(row) == {"code": -32603, "message": "The worker was lost", "data": {"_meta": META}}
    assert write_task(row)["statusMessage"] == "The worker was lost"


@requirement("E-032", "E-035")
@pytest.mark.parametrize(
    ("reason", "message"), [("Enough", "Task was cancelled: Enough"), (None, "Task was cancelled")]
)
def test_a_cancelled_task_has_an_outcome_too(reason: str | None, message: str) -> None:
    row = ended(Status.CANCELLED, status_message=reason)
    assert wire(row) == {"code": -32602, "message": message, "data": {"_meta": META}}


@pytest.mark.parametrize("name", ["working", "input_required"])
def test_what_has_not_ended_has_no_error(name: str) -> None:
    assert error_of(ROWS[name]) is None


@requirement("G-007")
def test_a_message_names_the_task_it_belongs_to() -> None:
    assert related("a") == META
