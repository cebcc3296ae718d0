"""Tasks of 2025-11-25, driven by the official SDKs of that time, in Python and in TypeScript, over HTTP and stdio."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.interop import programs
from tests.interop.programs import Report

pytestmark = pytest.mark.slow

CLIENTS = {"python": programs.python_sdk, "typescript": programs.typescript_sdk}
IMMEDIATE_RESPONSE = "io.modelcontextprotocol/model-immediate-response"


@pytest.fixture(
    scope="module", params=[(client, transport) for client in CLIENTS for transport in ("http", "stdio")], ids="-".join
)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """What one of the clients saw over one of the transports."""
    client, transport = request.param
    with programs.target(transport, tmp_path_factory.mktemp("store")) as target:
        return CLIENTS[client](target)


def _result(value: object) -> dict[str, Any]:
    return {"text": str(value), "structured": {"result": value}, "isError": False, "ofTask": True}


def _question(method: str, message: str) -> dict[str, Any]:
    return {"method": method, "message": message, "task": True}


# What the server offers


def test_the_server_says_it_has_tasks(seen: Report) -> None:
    assert seen["initialized"] == {
        "version": "2025-11-25",
        "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    }


def test_tools_say_whether_they_can_be_tasks(seen: Report) -> None:
    optional = ("add", "slow", "ask", "ask_twice", "sample", "fails", "protocol_error")
    assert seen["offered"] == {**dict.fromkeys(optional, "optional"), "only_as_task": "required"}


# A task's life


def test_a_call_becomes_a_task(seen: Report) -> None:
    created = seen["created"]
    assert (created["status"], created["ttl"], created["pollInterval"]) == ("working", 60_000, 100)
    assert datetime.fromisoformat(created["createdAt"]) <= datetime.fromisoformat(created["lastUpdatedAt"])
    assert isinstance(created["meta"][IMMEDIATE_RESPONSE], str)


def test_a_task_is_polled_and_its_result_collected_twice(seen: Report) -> None:
    assert seen["completed"] == {"last": "completed", "result": _result(5), "again": _result(5)}


def test_a_result_can_be_waited_for(seen: Report) -> None:
    assert seen["awaited"] == {"result": _result("It took 0.5 seconds"), "status": "completed"}


def test_a_tool_that_must_be_a_task_is_one(seen: Report) -> None:
    assert seen["required"] == {"result": _result("YES")}


def test_tasks_are_listed_newest_first(seen: Report) -> None:
    assert seen["listed"] == {"newest": [2, 1, 0], "hasMore": False}


def test_a_task_is_cancelled_once_and_for_all(seen: Report) -> None:
    cancelled = seen["cancelled"]
    assert (cancelled["answer"], cancelled["later"]) == ("cancelled", "cancelled")
    assert cancelled["result"]["code"] == -32602
    assert cancelled["result"]["message"].startswith("Task was cancelled")
    assert cancelled["again"]["code"] == -32602


# Questions


def test_an_elicitation_is_relayed_while_the_result_is_waited_for(seen: Report) -> None:
    message = "What is your name?"
    assert seen["elicited"] == {
        "asking": "input_required",
        "questions": [_question("elicitation/create", message)],
        "result": _result(f"Hello, asked {message}!"),
    }


def test_two_elicitations_of_one_task_are_relayed(seen: Report) -> None:
    assert seen["elicited_twice"] == {
        "asking": "input_required",
        "questions": [_question("elicitation/create", f"The {which}?") for which in ("first", "second")],
        "result": _result("asked The first? and asked The second?"),
    }


def test_sampling_is_relayed_while_the_result_is_waited_for(seen: Report) -> None:
    assert seen["sampled"] == {
        "asking": "input_required",
        "questions": [_question("sampling/createMessage", "Say something")],
        "result": _result("It said: Something"),
    }


def test_a_question_may_be_declined(seen: Report) -> None:
    assert seen["declined"] == {"text": "They chose to decline"}


def test_an_error_in_place_of_an_answer_ends_a_task_as_it_ends_a_plain_call(seen: Report) -> None:
    error = [-32055, "Nobody is here"]
    assert seen["unanswered"] == {"task": error, "plain": error}


def test_a_client_may_answer_an_elicitation_with_a_task_of_its_own(seen: Report) -> None:
    assert seen["received_elicitation"] == {
        "text": "Hello, asked What is your name?!",
        "requests": ["elicitation/create", "tasks/get", "tasks/result"],
        "ttl": "int",
        "ofTask": True,
    }


def test_a_client_may_answer_sampling_with_a_task_of_its_own(seen: Report) -> None:
    assert seen["received_sampling"] == {
        "text": "It said: Something",
        "requests": ["sampling/createMessage", "tasks/get", "tasks/result"],
        "ttl": "int",
        "ofTask": True,
    }


# What goes wrong


def test_a_tool_that_fails_fails_its_task_and_keeps_its_result(seen: Report) -> None:
    failed = seen["failed"]
    assert failed["status"] == "failed"
    assert failed["result"]["isError"]
    assert failed["result"]["text"].endswith("This tool always fails")
    assert failed["message"] == failed["result"]["text"]


def test_a_protocol_error_is_replayed_as_it_was(seen: Report) -> None:
    error = {
        "code": -32050,
        "message": "This tool never has a result",
        "data": {"why": "it was made so", "_meta": True},
    }
    assert seen["broken"] == {"status": "failed", "error": error, "again": error}


def test_an_unknown_task_is_not_found(seen: Report) -> None:
    found = {request: (error["code"], error["message"]) for request, error in seen["unknown"].items()}
    assert found == dict.fromkeys(("get", "result", "cancel"), (-32602, "Failed to retrieve task: Task not found"))


def test_a_call_must_be_a_task_where_that_is_required_and_must_not_where_it_is_forbidden(seen: Report) -> None:
    assert {case: error["code"] for case, error in seen["refused"].items()} == {
        "required": -32601,
        "forbidden": -32601,
    }


# What is said unasked


def test_each_status_is_announced(seen: Report) -> None:
    assert seen["notified"] == {
        "before": ["working", "input_required"],
        "after": ["working", "input_required", "working", "completed"],
    }


def test_progress_is_told_while_the_task_lives(seen: Report) -> None:
    progressed = seen["progressed"]
    assert progressed["progress"]
    assert progressed["progress"] == sorted(set(progressed["progress"]))
    assert progressed["ofTask"]


# Calls that do not ask for a task


def test_a_call_without_a_task_is_answered_as_ever(seen: Report) -> None:
    assert seen["held"] == {
        "added": {"result": 5},
        "ofTask": False,
        "answered": "Hello, asked What is your name?!",
        "questions": 1,
    }
