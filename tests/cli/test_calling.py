"""`coatcheck call` and `coatcheck tools`, where nobody sits at a terminal."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.caller import Caller
from tests.cli.serving import PATIENCE, ROOT, environment

pytestmark = pytest.mark.slow
COMMAND = shlex.join([sys.executable, "-m", "coatcheck", "serve", f"{ROOT}/tests/terminal/app.py:server", "--stdio"])


@pytest.mark.parametrize("mode", ["auto", "2026-07-28", "2025-11-25"])
def test_a_result_goes_to_stdout_and_nothing_else_does(mode: str, url: str, coatcheck: Caller) -> None:
    done = coatcheck("call", url, "steps", "count=3", "--mode", mode)
    assert (done.code, done.out, done.err) == (0, "3 steps\n", "")


def test_programs_get_json(url: str, coatcheck: Caller) -> None:
    done = coatcheck("call", url, "steps", "count=1", "--json").json
    assert (done["tool"], done["status"], done["result"]["structuredContent"]) == (
        "steps",
        "completed",
        {"result": "1 steps"},
    )
    assert done["id"]
    plain = coatcheck("call", url, "add", "a=1", "--json").json
    assert (plain["id"], plain["result"]["structuredContent"]) == (None, {"result": 2})


def test_what_is_no_text_is_named(url: str, coatcheck: Caller) -> None:
    done = coatcheck("call", url, "picture")
    assert done.out == "\x1b[31mA picture:\n[image: image/png, 5 bytes; --json prints it]\n"  # to a pipe, as it came


def test_a_command_line_is_a_target(coatcheck: Caller) -> None:
    assert coatcheck("call", COMMAND, "add", "a=2", "b=3").out == "5\n"


def test_a_name_in_a_file_is_a_target(url: str, coatcheck: Caller) -> None:
    (coatcheck.folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"here": {"url": url}}}))
    assert coatcheck("call", "here", "add", "a=2").out == "3\n"
    assert coatcheck("call", ".mcp.json:here", "add", "a=2").out == "3\n"


def test_arguments_come_from_stdin(url: str, coatcheck: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"a": 5, "b": 6}'))
    assert coatcheck("call", url, "add", "--input", "-", "b=7").out == "12\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ad", "a=1"], "The server has no tool 'ad'; it has add, approve, "),
        (["add"], "add needs a (integer); write a=…."),
        (["add", "a=one"], "a: 'one' is not an integer."),
        (["add", "a=1", "c=2"], "add has no argument 'c'. It takes a (integer), b (integer), tags"),
        (["add", "a"], "'a' is no argument; write key=value"),
        (["add", "a=1", "--input", "nowhere.json"], "nowhere.json cannot be read"),
        (["add", "a=1", "--mode", "2020"], "There is no mode '2020'"),
        (["add", "a=1", "--header", "nothing"], "One of the headers is none; write --header 'Name: value'."),
        (["add", "a=1", "--timeout", "soon"], "'soon' is no duration"),
        (["add", "a=1", "--detach"], "add does not run as a task; call it without --detach."),
        (["add", "a=1", "--nonsense"], "No such option: --nonsense"),
    ],
)
def test_what_cannot_be_right_is_refused(arguments: list[str], sentence: str, url: str, coatcheck: Caller) -> None:
    done = coatcheck("call", url, *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.sentence.startswith(sentence)


def test_a_tool_that_fails_is_told_apart(url: str, coatcheck: Caller) -> None:
    done = coatcheck("call", url, "fail")
    assert (done.code, done.out) == (1, "")
    assert "It broke" in done.sentence
    refused = coatcheck("call", url, "refuse", "--json")
    assert refused.code == 1
    error = refused.json["error"]
    assert (error["type"], error["code"], error["data"]) == ("ToolFailed", -32050, {"what": "thing"})
    assert "No such thing" in error["message"]


def test_control_characters_of_a_server_do_not_reach_the_terminal(url: str, coatcheck: Caller) -> None:
    done = coatcheck("call", url, "fail", "why=\x1b[31mred\x07")
    assert "\x1b" not in done.err
    assert "red" in done.sentence


@pytest.mark.parametrize("mode", ["auto", "2025-11-25"])
def test_where_nobody_can_be_asked_the_task_waits(mode: str, url: str, coatcheck: Caller) -> None:
    done = coatcheck("call", url, "approve", "--mode", mode)
    assert (done.code, done.out) == (4, "")
    assert "nobody here to answer" in done.sentence
    assert "coatcheck answer " in done.sentence


def test_after_the_timeout_the_task_goes_on(url: str, coatcheck: Caller) -> None:
    done = coatcheck("call", url, "hold", "--timeout", "0.3s", "--json")
    assert done.code == 124
    assert (done.json["error"]["type"], done.json["error"]["exit_code"]) == ("StillRunning", 124)
    assert f"coatcheck wait {done.json['id']}" in done.sentence
    assert coatcheck("status", done.json["id"], "--json").json["status"] == "working"
    assert coatcheck("cancel", done.json["id"]).out == "cancelled\n"


def test_without_a_ledger_the_target_is_named_again(url: str, coatcheck: Caller) -> None:
    done = coatcheck("call", url, "hold", "--timeout", "0.3", "--no-ledger", "--poll")
    assert f"coatcheck wait --target {url} " in done.sentence
    assert coatcheck("tasks", "--json").out == ""


def test_a_plain_call_is_given_up_after_the_timeout(url: str, coatcheck: Caller) -> None:
    done = coatcheck("call", url, "slow_plain", "--timeout", "0.3")
    assert done.code == 124
    assert done.sentence == "No result after 0.3 seconds. This is no task, so the call was given up."


def test_the_tools_are_listed(url: str, coatcheck: Caller) -> None:
    done = coatcheck("tools", url)
    assert done.out.startswith(
        "add  no task\n    Add two numbers, at once.\n    a=integer [b=integer] [tags=array of string or null]\n"
    )
    assert "steps  a task\n" in done.out
    tools = {tool["name"]: tool for tool in coatcheck("tools", url, "--json").lines}
    assert tools["steps"]["task_support"] == "optional"
    assert tools["add"]["input_schema"]["required"] == ["a"]


def test_a_reader_that_goes_away_is_no_error(url: str, tmp_path: Path) -> None:
    program = shlex.join([sys.executable, "-m", "coatcheck", "tools", url, "--json"])
    command = ["bash", "-c", f"{program} | true; exit ${{PIPESTATUS[0]}}"]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (141, b"")
