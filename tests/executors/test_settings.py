"""What cannot be right is refused when it is said; how often to look, and where in an answer."""

from __future__ import annotations

from typing import Any

import pytest

from coatcheck import InvalidArgument
from coatcheck.executor import JobError, JobQuestion, JobState
from coatcheck.executors import Fields, HttpJobs, Pace, Routes
from coatcheck.task import Progress


@pytest.mark.parametrize(
    "url",
    ["", "jobs.example", "ftp://a.example", "http://", "https://a.example/?x=1", "https://a.example/#x", "http://a:b"],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="must be like"):
        HttpJobs(url)


def test_a_password_in_the_address_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidArgument) as refusal:
        HttpJobs("https://ann:sesame@jobs.example")
    assert "sesame" not in str(refusal.value)


def test_headers_leave_the_house_encrypted_or_by_permission() -> None:
    headers = {"authorization": "Bearer sesame"}
    with pytest.raises(InvalidArgument, match="could be read on their way"):
        HttpJobs("http://jobs.example", headers=headers)
    HttpJobs("http://jobs.example")
    HttpJobs("http://jobs.example", headers=headers, allow_plain_http=True)
    HttpJobs("http://127.0.0.1:8000", headers=headers)
    HttpJobs("http://[::1]:8000", headers=headers)


def test_headers_that_cannot_be_sent_are_refused_and_not_shown() -> None:
    with pytest.raises(InvalidArgument) as refusal:
        HttpJobs("https://jobs.example", headers={"authorization": "Bearer sesame\r\nx: y"})
    assert "sesame" not in str(refusal.value)


@pytest.mark.parametrize(
    "route", ["jobs", "get jobs", "GET /jobs", "GET ", "GET https://other/", "GET jobs/{x}", "GET {"]
)
def test_what_is_no_route_is_refused(route: str) -> None:
    with pytest.raises(InvalidArgument, match="status must be like"):
        Routes(status=route)


@pytest.mark.parametrize("wrong", [{"timeout": 0.0}, {"timeout": float("nan")}, {"max_bytes": 0}])
def test_limits_are_limits(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        HttpJobs("https://jobs.example", **wrong)


@pytest.mark.parametrize("wrong", [{"first": 0.0}, {"longest": -1.0}, {"wait": -1.0}, {"persistence": float("nan")}])
def test_a_pace_is_positive(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument):
        Pace(**wrong)


def test_an_executor_is_named_after_its_address_unless_it_is_named() -> None:
    assert HttpJobs("https://jobs.example/v1/").name == "jobs.example/v1"
    assert HttpJobs("https://jobs.example/v1/", name="farm").name == "farm"


def test_looks_become_rarer_within_bounds() -> None:
    pace = Pace(first=1, longest=8)
    assert 1 <= pace.between_looks(0, None) <= 1.2
    assert 8 <= pace.between_looks(10_000, None) <= 9.6
    assert pace.between_looks(10_000, 3) == 3
    assert (pace.between_looks(0, 0), pace.between_looks(0, 1e9)) == (1, 48)


def test_tries_become_rarer_within_bounds() -> None:
    pace = Pace(first=1, longest_retry=10)
    assert 1 <= pace.between_tries(1, None) <= 1.2
    assert 10 <= pace.between_tries(10_000, None) <= 12
    assert 30 <= pace.between_tries(1, 30) <= 36
    assert pace.between_tries(1, 1e9) <= 60


def test_what_is_missing_or_of_another_type_is_left_out() -> None:
    nothing: list[Any] = [None, [], "x", {}, {"state": None}, {"state": ["succeeded"]}]
    for said in nothing:
        assert Fields().status(said).state is JobState.RUNNING
    odd: dict[str, Any] = {"progress": {"done": -1, "total": True}, "message": 7, "questions": [1], "error": "x"}
    status = Fields().status({"state": "Running", **odd})
    assert (status.progress, status.message, status.questions, status.error) == (None, None, {}, None)


def test_numbers_that_are_too_large_are_left_out() -> None:
    for done, total in ((10**400, 1), (-(10**400), 1), (float("inf"), 1)):
        assert Fields().status({"state": "running", "progress": {"done": done, "total": total}}).progress is None
    known = Fields().status({"state": "running", "progress": {"done": 1, "total": 10**400}})
    assert known.progress == Progress(done=1)


def test_everything_is_read() -> None:
    questions: dict[str, Any] = {
        "q": {"message": "Why?", "schema": {"type": "object"}},
        "bad": {"message": "No schema"},
    }
    questions[".."] = questions["q"]  # no part of an address
    said = {"state": "queued", "progress": {"done": 1}, "message": "Soon", "result": 1, "questions": questions}
    status = Fields().status(said)
    assert (status.progress, status.message, status.result) == (Progress(done=1), "Soon", None)
    assert status.questions == {"q": JobQuestion(message="Why?", schema={"type": "object"})}
    failed = Fields().status({"state": "failed", "error": {"message": "No", "code": "E1", "data": [1]}})
    assert failed.error == JobError(message="No", code="E1", data=[1])
    assert Fields(id="items.0.id").job_id({"items": [{"id": 7}]}) == "7"
    assert Fields(id="items.1.id").job_id({"items": [{"id": 7}]}) is None
