"""Clients that others wrote, driving tasks on a server of ours."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conformance.node import NODE, packages
from tests.conformance.serving import EXAMPLE, PATIENCE, serving
from tests.interop import fastmcp_venv

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
Report = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with serving(EXAMPLE, tmp_path_factory.mktemp("store")) as url:
        yield url


@pytest.fixture(scope="module")
def typescript(url: str) -> Report:
    """What the TypeScript SDK saw. The program is its standard input, so that imports are looked for where it runs."""
    with (HERE / "ext_tasks.mjs").open() as program:
        return _report(NODE, "--input-type=module", "-", url, stdin=program, cwd=packages())


@pytest.fixture(scope="module")
def fastmcp(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """What FastMCP saw. It leaves out the Mcp-Name header, which the protocol has and a server may insist on."""
    with serving(EXAMPLE, tmp_path_factory.mktemp("store"), "--lenient-headers") as url:
        return _report(fastmcp_venv.python(), HERE / "fastmcp_client.py", url)


def _report(*command: str | Path, **options: Any) -> Report:
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE, **options)
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout, type=Report)


# The TypeScript SDK, with the requester of @modelcontextprotocol/ext-tasks


def test_typescript_speaks_the_version_that_has_tasks(typescript: Report) -> None:
    assert typescript["negotiated"] == {"protocolVersion": "2026-07-28"}


def test_typescript_gets_a_plain_result_of_a_plain_tool(typescript: Report) -> None:
    assert typescript["greeted"] == {
        "kind": "immediate",
        "status": "completed",
        "text": "Hello, Ada!",
        "isError": False,
        "statuses": [],
        "questions": [],
    }


def test_typescript_polls_answers_and_gets_the_result(typescript: Report) -> None:
    assert typescript["confirmed"] == {
        "kind": "task",
        "status": "completed",
        "text": "notes.txt is deleted",
        "isError": False,
        "statuses": ["working", "input_required", "completed"],
        "questions": [{"delivery": "task-update", "message": "Delete notes.txt?"}],
    }


def test_typescript_answers_two_questions_of_one_task(typescript: Report) -> None:
    seen = typescript["twice"]
    assert seen["text"] == "asked The first? and asked The second?"
    assert sorted(question["message"] for question in seen["questions"]) == ["The first?", "The second?"]


def test_typescript_answers_before_there_is_a_task(typescript: Report) -> None:
    seen = typescript["before"]
    assert seen["questions"] == [{"delivery": "request-retry", "message": "What is your name?"}]
    assert (seen["kind"], seen["status"]) == ("task", "completed")
    assert seen["text"] == "Hello, asked What is your name?!"


def test_typescript_tells_a_failed_tool_from_a_failed_task(typescript: Report) -> None:
    assert (typescript["wrong"]["status"], typescript["wrong"]["isError"]) == ("completed", True)
    broken = typescript["broken"]
    assert (broken["status"], broken["code"], broken["message"]) == ("failed", -32603, "This job never has a result")


def test_typescript_cancels_a_task(typescript: Report) -> None:
    assert typescript["cancelled"] == {"kind": "task", "status": "cancelled", "later": "cancelled"}


def test_typescript_takes_up_a_task_in_another_session(typescript: Report) -> None:
    seen = typescript["resumed"]
    assert (seen["kind"], seen["status"], seen["text"]) == ("task", "completed", "handed over took 0.5 seconds")


# FastMCP


def test_fastmcp_need_not_know_that_a_call_is_a_task(fastmcp: Report) -> None:
    assert fastmcp["greeted"] == {"text": "Hello, Ada!", "questions": []}
    assert fastmcp["computed"] == {"text": "It took 0.2 seconds", "questions": []}


def test_fastmcp_polls_answers_and_gets_the_result(fastmcp: Report) -> None:
    assert fastmcp["confirmed"] == {"text": "notes.txt is deleted", "questions": ["Delete notes.txt?"]}
    assert fastmcp["driven"] == {
        "created": "working",
        "asking": ["elicitation/create"],
        "text": "notes.txt is deleted",
        "finished": "completed",
    }


def test_fastmcp_answers_two_questions_of_one_task(fastmcp: Report) -> None:
    assert fastmcp["twice"]["text"] == "asked The first? and asked The second?"
    assert sorted(fastmcp["twice"]["questions"]) == ["The first?", "The second?"]


def test_fastmcp_answers_before_there_is_a_task(fastmcp: Report) -> None:
    assert fastmcp["before"] == {"text": "Hello, asked What is your name?!", "questions": ["What is your name?"]}


def test_fastmcp_raises_what_went_wrong(fastmcp: Report) -> None:
    assert fastmcp["wrong"] == {"error": "Error executing tool failing_job"}
    assert fastmcp["broken"] == {"error": "This job never has a result"}


def test_fastmcp_cancels_a_task(fastmcp: Report) -> None:
    assert fastmcp["cancelled"] == {"before": "working", "after": "cancelled", "has_result": False}
