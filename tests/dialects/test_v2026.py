"""How a task looks in 2026-07-28: golden JSON for every status, made of rows."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from coatcheck.dialects.v2026 import WireTask, plain, write_created, write_notification, write_task
from coatcheck.dialects.words import milliseconds, write_error
from coatcheck.payload import encode
from coatcheck.task import Failure, InputRequest, Lease, Progress, Status, Task
from coatcheck.testing.builders import NOW, a_task
from tests.requirements.marks import requirement

PROGRESS = "coatcheck/progress"
RESULT = {"content": [{"type": "text", "text": "caf\u00e9"}], "isError": False}
QUESTION: dict[str, Any] = {"mode": "form", "message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}


def a_row(**changes: Any) -> Task:
    """Return a task that some worker holds, with `changes`."""
    given = {"lease": Lease(worker="w", until=NOW), "attempt": 1, "updated_at": NOW + timedelta(seconds=1), **changes}
    return msgspec.structs.replace(a_task(), **given)


ROWS: dict[str, Task] = {
    "working": a_row(status_message="Half done"),
    "input_required": a_row(
        status=Status.INPUT_REQUIRED,
        input_requests={
            "a#1": InputRequest(method="elicitation/create", params=encode(QUESTION), answer_schema=encode({})),
            "b#1": InputRequest(method="roots/list", params=encode({})),
        },
        input_responses={"c#1": encode({"action": "decline"})},
    ),
    "completed": a_row(status=Status.COMPLETED, lease=None, result=encode(RESULT)),
    "failed": a_row(
        status=Status.FAILED,
        lease=None,
        failure=Failure(message="Too fast", code=-32050, data=encode({"retry": [1, None]})),
    ),
    "cancelled": a_row(status=Status.CANCELLED, lease=None, status_message="Enough"),
}
COMMON = {
    "taskId": "a",
    "createdAt": "2026-01-01T00:00:00Z",
    "lastUpdatedAt": "2026-01-01T00:00:01Z",
    "ttlMs": 3_600_000,
    "pollIntervalMs": 1000,
}
OWN: dict[str, dict[str, Any]] = {
    "working": {"statusMessage": "Half done"},
    "input_required": {
        "statusMessage": "Waiting for an answer",
        "inputRequests": {
            "a#1": {"method": "elicitation/create", "params": QUESTION},
            "b#1": {"method": "roots/list"},
        },
    },
    "completed": {"result": {"resultType": "complete", **RESULT}},
    "failed": {
        "statusMessage": "Too fast",
        "error": {"code": -32050, "message": "Too fast", "data": {"retry": [1, None]}},
    },
    "cancelled": {"statusMessage": "Enough"},
}
PAYLOADS = {"inputRequests": "input_required", "result": "completed", "error": "failed"}


def wire(written: WireTask) -> dict[str, Any]:
    return json.loads(msgspec.json.encode(written))


@requirement("S-012", "S-014", "S-015", "S-027", "S-028", "S-029", "S-030", "S-031", "S-032", "ER-2")
@pytest.mark.parametrize("status", ROWS)
def test_a_poll_is_answered_with_the_task_and_what_belongs_to_its_status(status: str) -> None:
    assert wire(write_task(ROWS[status])) == {"resultType": "complete", "status": status, **COMMON, **OWN[status]}


@requirement("S-014")
def test_there_are_five_statuses() -> None:
    assert list(ROWS) == [status.value for status in Status]


@requirement("S-015", "S-016", "C-008")
@pytest.mark.parametrize("status", ROWS)
def test_no_status_carries_the_payload_of_another(status: str) -> None:
    carried = PAYLOADS.keys() & wire(write_task(ROWS[status])).keys()
    assert carried == {name for name, owner in PAYLOADS.items() if owner == status}


@requirement("S-017", "S-011", "C-004")
@pytest.mark.parametrize("status", ROWS)
def test_a_creation_is_flat_and_has_no_payload(status: str) -> None:
    message = {name: value for name, value in OWN[status].items() if name == "statusMessage"}
    assert wire(write_created(ROWS[status])) == {"resultType": "task", "status": status, **COMMON, **message}


@requirement("S-052", "S-056", "ER-5")
@pytest.mark.parametrize("status", ROWS)
def test_a_notification_says_what_a_poll_says_but_is_no_result(status: str) -> None:
    polled = wire(write_task(ROWS[status]))
    del polled["resultType"]
    assert wire(write_notification(ROWS[status], {"k": 1})) == {**polled, "_meta": {"k": 1}}


@requirement("T-03", "S-029")
@pytest.mark.parametrize("result", [{}, {"content": []}])
def test_a_result_is_framed_as_the_call_itself_would_have_framed_it(result: dict[str, Any]) -> None:
    row = a_row(status=Status.COMPLETED, lease=None, result=encode(result))
    assert wire(write_task(row))["result"] == {"resultType": "complete", **result}


@pytest.mark.parametrize("result", [[1], "text", 7, None, True], ids=str)
def test_a_result_that_is_no_object_still_makes_json(result: object) -> None:
    row = a_row(status=Status.COMPLETED, lease=None, result=encode(result))
    assert wire(write_task(row))["status"] == "completed"


@requirement("T-08", "R-13")
def test_an_unlimited_lifetime_is_said_to_be_null() -> None:
    written = wire(write_task(a_row(expires_at=None)))
    assert "ttlMs" in written
    assert written["ttlMs"] is None


@requirement("S-035", "R-12")
def test_a_lifetime_is_counted_from_creation_and_may_have_grown() -> None:
    assert wire(write_task(a_row(expires_at=NOW + timedelta(days=7))))["ttlMs"] == 7 * 86_400_000


@requirement("ER-6", "C-016")
def test_milliseconds_are_whole_numbers() -> None:
    row = a_row(poll_interval=timedelta(seconds=0.1234567), expires_at=NOW + timedelta(microseconds=1_500_999))
    assert (wire(write_task(row))["ttlMs"], wire(write_task(row))["pollIntervalMs"]) == (1500, 123)
    assert type(milliseconds(timedelta(seconds=1.5))) is int


def test_a_poll_interval_is_never_told_as_zero() -> None:
    assert wire(write_task(a_row(poll_interval=timedelta(microseconds=1))))["pollIntervalMs"] == 1


@requirement("S-013")
@pytest.mark.parametrize("moment", [NOW, NOW + timedelta(microseconds=1)])
def test_times_are_iso_8601_in_utc(moment: datetime) -> None:
    written = wire(write_task(a_row(created_at=moment, updated_at=moment)))
    assert written["createdAt"] == written["lastUpdatedAt"]
    assert written["createdAt"].endswith("Z")
    assert datetime.fromisoformat(written["createdAt"]) == moment


@requirement("R-16", "C-015", "C-014", "S-072")
@pytest.mark.parametrize("status", ROWS)
def test_there_are_no_names_of_the_old_generation(status: str) -> None:
    for written in (write_task(ROWS[status]), write_created(ROWS[status]), write_notification(ROWS[status], {})):
        assert not {"ttl", "pollInterval", "task", "requestState"} & wire(written).keys()


@requirement("R-19", "T-06")
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
    assert wire(write_task(a_row(status_message=message, progress=progress)))["statusMessage"] == said


@requirement("R-19")
@pytest.mark.parametrize(
    ("progress", "said"),
    [
        (Progress(done=2, total=5), {"progress": 2, "total": 5}),
        (Progress(done=0.5, total=None), {"progress": 0.5}),
        (Progress(done=0, total=0), {"progress": 0, "total": 0}),
    ],
)
def test_progress_is_told_in_numbers_beside_what_else_there_is(progress: Progress, said: dict[str, Any]) -> None:
    row = a_row(progress=progress)
    assert wire(write_task(row))["_meta"] == {PROGRESS: said}
    for written in (write_task(row, {"k": 1}), write_notification(row, {"k": 1})):
        assert wire(written)["_meta"] == {"k": 1, PROGRESS: said}


@requirement("R-19")
def test_progress_in_numbers_is_not_in_creations() -> None:
    assert "_meta" not in wire(write_created(a_row(progress=Progress(done=1, total=2))))


def test_a_finished_task_does_not_tell_how_far_it_was() -> None:
    row = msgspec.structs.replace(ROWS["completed"], progress=Progress(done=1, total=2))
    assert not {"statusMessage", "_meta"} & wire(write_task(row)).keys()


@requirement("R-29")
def test_a_task_that_waits_for_its_first_worker_says_so() -> None:
    assert wire(write_task(a_task()))["statusMessage"] == "Waiting for a worker"


@requirement("S-065")
def test_a_failure_without_a_code_is_an_internal_error() -> None:
    written = wire(write_task(a_row(status=Status.FAILED, lease=None, failure=Failure(message="The worker was lost"))))
    assert written["error"] == {"code": -32603, "message": "The worker was lost"}
    assert written["statusMessage"] == "The worker was lost"


@requirement("R-02", "T-04")
@pytest.mark.parametrize("data", [None, [], {"a": None}, "text", 0, False])
def test_whatever_data_an_error_had_is_kept(data: object) -> None:
    error = write_error(Failure(message="m", code=1, data=encode(data)))
    assert json.loads(msgspec.json.encode(error)) == {"code": 1, "message": "m", "data": data}


@requirement("T-01")
def test_a_task_that_needs_no_input_any_more_has_no_requests() -> None:
    row = a_row(input_responses={"a#1": encode({"action": "decline"})})
    assert "inputRequests" not in wire(write_task(row))


@pytest.mark.parametrize("status", ROWS)
def test_what_is_written_plainly_is_what_is_written_at_once(status: str) -> None:
    written = write_task(ROWS[status], {"k": None})
    assert plain(written) == wire(written)
