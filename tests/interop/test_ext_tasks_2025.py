"""The TypeScript SDK 2.x with @modelcontextprotocol/ext-tasks on its 2025-11-25 side, over HTTP and stdio.

It polls until a task is over and only then asks for the result, so what a task asks meanwhile reaches it only if its
host waits for the result too; and of a failed task it reads nothing but the status message.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop import programs
from tests.interop.programs import Report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["http", "stdio"])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Report:
    with programs.target(request.param, tmp_path_factory.mktemp("store")) as target:
        return programs.ext_tasks(target)


def _as_task(text: str) -> dict[str, Any]:
    return {"kind": "task", "status": "completed", "text": text, "isError": False}


def _immediate(text: str) -> dict[str, Any]:
    return {"kind": "immediate", "status": "completed", "statuses": [], "text": text, "isError": False}


def _question(kind: str) -> dict[str, Any]:
    return {"kind": kind, "scope": "task", "delivery": "peer-request", "taskId": True}


def _without_statuses(seen: dict[str, Any]) -> dict[str, Any]:
    """Leave out what depends on when it polled."""
    return {name: value for name, value in seen.items() if name != "statuses"}


def test_ext_tasks_finds_the_tasks_of_2025(seen: Report) -> None:
    assert seen["negotiated"] == {
        "version": "2025-11-25",
        "inventory": "server-list",
        "execution": True,
        "cancellation": True,
        "inputResponses": False,
        "requestedRetention": True,
    }


def test_ext_tasks_gets_a_plain_result_of_a_plain_tool(seen: Report) -> None:
    assert seen["undeclared"] == _immediate("Hello, Ada!")


def test_ext_tasks_gets_a_plain_result_where_it_does_not_prefer_a_task(seen: Report) -> None:
    assert seen["allowed"] == _immediate("5")


def test_ext_tasks_creates_polls_and_collects(seen: Report) -> None:
    assert _without_statuses(seen["preferred"]) == _as_task("5")
    assert seen["preferred"]["statuses"] == ["working", "completed"]


def test_ext_tasks_makes_a_task_of_what_must_be_one(seen: Report) -> None:
    assert _without_statuses(seen["required"]) == _as_task("YES")


def test_ext_tasks_answers_an_elicitation(seen: Report) -> None:
    expected = {**_as_task("Hello, asked What is your name?!"), "questions": [_question("elicitation")]}
    assert _without_statuses(seen["elicited"]) == expected
    assert "input_required" in seen["elicited"]["statuses"]


def test_ext_tasks_answers_two_questions_of_one_task(seen: Report) -> None:
    expected = {**_as_task("asked The first? and asked The second?"), "questions": 2 * [_question("elicitation")]}
    assert _without_statuses(seen["elicited_twice"]) == expected


def test_ext_tasks_answers_sampling(seen: Report) -> None:
    expected = {**_as_task("It said: Something"), "questions": [_question("sampling")]}
    assert _without_statuses(seen["sampled"]) == expected


def test_ext_tasks_learns_from_the_status_why_a_tool_failed(seen: Report) -> None:
    failed = seen["failed"]
    assert (failed["kind"], failed["status"]) == ("task", "failed")
    assert failed["message"].endswith("This tool always fails")


def test_ext_tasks_learns_from_the_status_why_a_task_failed(seen: Report) -> None:
    broken = seen["broken"]
    assert (broken["kind"], broken["status"]) == ("task", "failed")
    assert broken["message"] == "This tool never has a result"


def test_ext_tasks_cancels_a_task(seen: Report) -> None:
    assert seen["cancelled"] == {"status": "cancelled", "later": "cancelled", "result": "cancelled"}


def test_ext_tasks_lists_tasks_newest_first(seen: Report) -> None:
    assert seen["listed"] == {"newest": [2, 1, 0]}


def test_ext_tasks_takes_up_a_task_in_another_session_of_its_own(seen: Report) -> None:
    assert seen["resumed"] == {"kind": "task", "status": "completed", "text": "It took 0.5 seconds"}


def test_ext_tasks_answers_an_elicitation_with_a_task_of_its_own(seen: Report) -> None:
    assert seen["received_elicitation"] == {
        "status": "completed",
        "text": "Hello, asked What is your name?!",
        "requests": ["elicitation/create", "tasks/get", "tasks/result"],
        "ttl": "int",
    }


def test_ext_tasks_answers_sampling_with_a_task_of_its_own(seen: Report) -> None:
    assert seen["received_sampling"] == {
        "status": "completed",
        "text": "It said: Something",
        "requests": ["sampling/createMessage", "tasks/get", "tasks/result"],
        "ttl": "int",
    }
