"""`tasks`, `status`, `wait`, `answer`, `cancel`, `resume`: what was handed in earlier is found again by its id."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from coatcheck.client.ledger import Entry, Ledger
from tests.cli.caller import Caller

pytestmark = pytest.mark.slow


def hand_in(coatcheck: Caller, url: str, *call: str) -> str:
    done = coatcheck("call", url, *call, "--detach")
    assert (done.code, done.err) == (0, "")
    return done.out.strip()


def test_a_task_is_found_by_the_beginning_of_its_id(url: str, coatcheck: Caller) -> None:
    task_id = hand_in(coatcheck, url, "steps", "count=2")
    assert coatcheck("wait", task_id[:30]).out == "2 steps\n"
    gone = coatcheck("wait", task_id)
    assert (gone.code, gone.sentence.startswith("The ledger has no task")) == (2, True)


def test_a_task_that_was_never_here_needs_a_target(url: str, coatcheck: Caller) -> None:
    task_id = coatcheck("call", url, "steps", "count=2", "--detach", "--no-ledger").out.strip()
    assert coatcheck("status", task_id).code == 2
    assert coatcheck("wait", task_id, "--target", url, "--json").json["result"]["content"][0]["text"] == "2 steps"
    lost = coatcheck("wait", "no-such-task", "--target", url)
    assert (lost.code, lost.out) == (5, "")
    assert "no-such-task is lost" in lost.sentence


def test_a_prefix_must_be_unique(url: str, coatcheck: Caller) -> None:
    for _ in range(2):
        hand_in(coatcheck, url, "steps", "count=1")
    assert coatcheck("wait", "").sentence == "2 tasks begin with ''; write more of the id."


def test_tasks_are_listed_as_they_are_or_were(url: str, coatcheck: Caller) -> None:
    assert coatcheck("tasks").out == "There are none.\n"
    held, asking = hand_in(coatcheck, url, "hold"), hand_in(coatcheck, url, "approve")
    head, first, second = coatcheck("tasks").out.splitlines()
    assert head.split() == ["id", "tool", "status", "message", "age", "where"]
    assert first.split()[:4] == [held, "hold", "working", "Holding"]
    assert second.startswith(f"{asking}  approve  input required")
    assert second.rstrip().endswith(url)
    offline = coatcheck("tasks", "--offline", "--json").lines
    assert [task["id"] for task in offline] == [held, asking]
    assert offline[0]["target"] == {"url": url}
    assert offline[0]["is_waited_for"] is False


def test_a_server_that_is_away_does_not_hide_the_others(url: str, coatcheck: Caller) -> None:
    hand_in(coatcheck, url, "hold")
    with Ledger() as ledger:
        nowhere = {"url": "http://127.0.0.1:9/mcp"}
        ledger.begin(
            Entry(key="k", target=nowhere, tool="t", arguments={}, started_at=datetime.now(UTC), task_id="elsewhere")
        )
    statuses = {task["id"]: task["status"] for task in coatcheck("tasks", "--json").lines}
    assert statuses.pop("elsewhere") == "unreachable"
    assert list(statuses.values()) == ["working"]


def test_the_status_says_what_is_asked(url: str, coatcheck: Caller) -> None:
    task_id = hand_in(coatcheck, url, "approve", "version=3")
    said = coatcheck("status", task_id)
    assert "status" in said.out
    assert "input required" in said.out
    assert "Deploy 3?" in said.out
    found = coatcheck("status", task_id, "--json").json
    assert (found["id"], found["status"], found["tool"]) == (task_id, "input_required", "approve")
    assert [question["params"]["message"] for question in found["questions"].values()] == ["Deploy 3?"]


def test_a_question_is_answered_in_one_line(url: str, coatcheck: Caller) -> None:
    task_id = hand_in(coatcheck, url, "approve")
    said = coatcheck("answer", task_id)
    assert (said.code, said.sentence) == (2, "It asks 'Deploy 2.1?'; answer with approved=boolean, or --decline.")
    assert coatcheck("answer", task_id, "approved=perhaps").sentence == "approved: 'perhaps' is not a boolean."
    assert coatcheck("answer", task_id, "aproved=yes").sentence.startswith("The question has no argument 'aproved'")
    assert coatcheck("answer", task_id, "approved=yes").out == "answered\n"
    assert json.loads(coatcheck("wait", task_id).out) == {"action": "accept", "content": {"approved": True}}


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_question_is_settled_without_an_answer(action: str, url: str, coatcheck: Caller) -> None:
    task_id = hand_in(coatcheck, url, "approve")
    assert coatcheck("answer", task_id, f"--{action}", "--json").json["id"] == task_id
    assert json.loads(coatcheck("wait", task_id).out)["action"] == action


def test_one_of_several_questions_is_chosen(url: str, coatcheck: Caller) -> None:
    task_id = hand_in(coatcheck, url, "two")
    keys = list(coatcheck("status", task_id, "--json").json["questions"])
    assert coatcheck("answer", task_id, "word=x").sentence.startswith("It asks several questions; choose one")
    assert coatcheck("answer", task_id, "word=x", "--question", "q").code == 2
    for key in keys:
        assert coatcheck("answer", task_id, f"word={key}", "--question", key).code == 0
    answers = json.loads(coatcheck("wait", task_id).out)
    assert {answer["content"]["word"] for answer in answers} == set(keys)


def test_who_is_not_asked_cannot_answer(url: str, coatcheck: Caller) -> None:
    task_id = hand_in(coatcheck, url, "hold")
    assert coatcheck("answer", task_id, "a=1").sentence == f"Task {task_id} asks nothing; it is working."
    assert coatcheck("answer", task_id, "--decline", "--cancel").code == 2
    assert coatcheck("answer", task_id, "a=1", "--decline").code == 2


def test_a_cancelled_task_has_no_result(url: str, coatcheck: Caller) -> None:
    task_id = hand_in(coatcheck, url, "hold")
    assert coatcheck("cancel", task_id, "--target", url, "--json").json["status"] == "cancelled"
    done = coatcheck("wait", task_id, "--target", url)
    assert (done.code, done.out) == (6, "")
    assert "was cancelled" in done.sentence


def test_a_wait_has_an_end_if_one_wants(url: str, coatcheck: Caller) -> None:
    task_id = hand_in(coatcheck, url, "hold")
    assert coatcheck("wait", task_id, "--timeout", "0.2").code == 124
    assert coatcheck("wait", hand_in(coatcheck, url, "approve")).code == 4


def test_everything_that_was_left_is_resumed(url: str, coatcheck: Caller) -> None:
    assert coatcheck("resume").sentence == "There is nothing to come back for."
    tasks = [hand_in(coatcheck, url, "steps", f"count={count}") for count in (1, 2)]
    done = coatcheck("resume", "--json")
    assert (done.code, done.err) == (0, "")
    assert {line["id"]: line["result"]["structuredContent"]["result"] for line in done.lines} == dict(
        zip(tasks, ("1 steps", "2 steps"), strict=True)
    )
    assert coatcheck("tasks").out == "There are none.\n"


def test_what_fails_does_not_keep_the_others_from_being_resumed(url: str, coatcheck: Caller) -> None:
    hand_in(coatcheck, url, "steps", "count=1")
    failed, asking = hand_in(coatcheck, url, "fail"), hand_in(coatcheck, url, "approve")
    done = coatcheck("resume")
    assert (done.code, done.out) == (1, "1 steps\n")
    assert f"fail {failed}: " in done.err
    assert f"approve {asking}: It asks 'Deploy 2.1?'" in done.err
    again = coatcheck("resume", "--json", "--timeout", "5")
    assert again.code == 4
    assert again.json["id"] == asking
