"""Progress in a real terminal, and all that Ctrl-C may mean."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coatcheck.cli.ledger import entries
from tests.cli.serving import PATIENCE, ROOT, environment
from tests.terminal.app import HOLDING
from tests.terminal.screen import Screen, wait_until

pytestmark = pytest.mark.slow
MENU = "[d]etach and keep it running, [c]ancel it, or go [o]n waiting?"
COMMAND = shlex.join([sys.executable, "-m", "coatcheck", "serve", "tests/terminal/app.py:server", "--stdio"])


def left_behind(text: str) -> str:
    """Return the id of a task that was left, from what was said of it."""
    found = re.search(r"The task goes on; come back with: coatcheck wait (\S+)$", text, re.MULTILINE)
    assert found, text
    return found[1]


class Gate:
    """How far `steps` may go."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.argument = f"gate={path}"
        self.open_to(0)

    def open_to(self, step: int) -> None:
        # At once, so that it is never read while it is empty.
        beside = self._path.with_suffix(".new")
        beside.write_text(str(step))
        beside.rename(self._path)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


def bar(text: str, step: int, count: int) -> int:
    """Return how long the bar of a task is that has got so far."""
    found = re.search(rf"steps (━+).*? {step}/{count} +0:\d\d:\d\d Step {step}", text)
    assert found, text
    return len(found[1])


def test_the_bar_moves_and_the_result_alone_is_piped(url: str, tmp_path: Path, gate: Gate, bash: Screen) -> None:
    result = tmp_path / "result"
    gate.open_to(2)
    bash.type(f"clear; coatcheck call {url} steps count=9 {gate.argument} > {result}; echo exit=$?")
    early = bar(bash.sees("2/9"), 2, 9)
    gate.open_to(7)
    assert bar(bash.sees("7/9"), 7, 9) > early
    gate.open_to(9)
    code, text = bash.ends()
    assert (code, result.read_text()) == (0, "9 steps\n")
    assert "━" not in text
    assert "Step" not in text


def test_go_on_then_detach_then_come_back_from_another_shell(
    url: str, gate: Gate, screen: Screen, bash: Screen
) -> None:
    gate.open_to(1)
    screen.run("call", url, "steps", "count=4", gate.argument)
    screen.sees("1/4")
    screen.press("C-c")
    screen.asks(MENU, "what")
    screen.sees("Type d, c or o")
    screen.asks(MENU, "o")
    gate.open_to(2)
    screen.sees("2/4")
    screen.press("C-c")
    screen.asks(MENU, "d")
    code, text = screen.ends()
    assert code == 130
    gate.open_to(3)
    bash.run("wait", left_behind(text)[:30])
    bash.sees("3/4")
    gate.open_to(4)
    code, text = bash.ends()
    assert code == 0
    assert "4 steps" in text


def test_twice_means_detach(url: str, screen: Screen) -> None:
    screen.run("call", url, "hold")
    screen.sees(HOLDING)
    screen.press("C-c")
    screen.sees(MENU)
    screen.press("C-c")
    code, text = screen.ends()
    assert code == 130
    screen.run("status", left_behind(text))
    assert "working" in screen.ends()[1]


def test_cancel_means_cancel(url: str, screen: Screen) -> None:
    screen.run("call", url, "hold")
    screen.sees(HOLDING)
    screen.press("C-c")
    screen.asks(MENU, "c")
    code, text = screen.ends()
    assert code == 6
    assert "was cancelled" in text


def test_a_question_can_be_interrupted_and_gone_back_to(url: str, screen: Screen) -> None:
    screen.run("call", url, "approve")
    screen.sees("Approved (y/n):")
    screen.press("C-c")
    screen.asks(MENU, "o")
    screen.asks("Approved (y/n)", "y")
    code, text = screen.ends()
    assert code == 0
    assert '"approved": true' in text


def test_a_question_can_be_left_open_for_later(url: str, screen: Screen) -> None:
    screen.run("call", url, "approve")
    screen.sees("Approved (y/n):")
    screen.press("C-c")
    screen.sees(MENU)
    screen.press("C-c")
    code, text = screen.ends()
    assert code == 130
    assert "Nobody asks" not in text
    screen.run("wait", left_behind(text))
    screen.asks("Approved (y/n)", "y")
    assert screen.ends()[0] == 0


def test_ctrl_c_does_not_reach_a_server_that_runs_for_us(gate: Gate, screen: Screen) -> None:
    gate.open_to(1)
    screen.run("call", COMMAND, "steps", "count=2", gate.argument)
    screen.sees("1/2")
    screen.press("C-c")
    screen.asks(MENU, "o")
    screen.sees("1/2")
    gate.open_to(2)
    code, text = screen.ends()
    assert code == 0
    assert "2 steps" in text


def test_a_question_outlives_a_server_that_runs_for_us(screen: Screen) -> None:
    screen.run("call", COMMAND, "order")
    screen.sees("Name (text, 2 to 20 characters):")
    screen.press("C-c")
    screen.sees(MENU)
    screen.press("C-c")
    code, text = screen.ends()
    assert code == 130
    assert "If it is resumable, the task goes on when its server is started again" in text
    screen.run("tasks", "--offline", "--json")
    task = json.loads(screen.ends()[1].replace("\n", "").partition("exit=")[0])
    screen.run("wait", task["id"])
    screen.asks("Name", "/decline")
    code, text = screen.ends()
    assert code == 0
    assert '{"action": "decline"}' in text


def test_a_call_that_is_no_task_cannot_be_left(url: str, screen: Screen) -> None:
    screen.run("call", url, "slow_plain")
    screen.sees(HOLDING)
    screen.press("C-c")
    code, text = screen.ends()
    assert code == 130
    assert "This is no task, so the call was given up." in text


def test_several_tasks_are_resumed_side_by_side(url: str, gate: Gate, screen: Screen) -> None:
    gate.open_to(1)
    for count in (2, 3):
        screen.run("call", url, "steps", f"count={count}", gate.argument, "--detach")
        screen.ends()
    screen.run("resume")
    screen.sees("1/2", "1/3")
    gate.open_to(2)
    screen.sees("2 steps", "2/3")
    gate.open_to(3)
    code, text = screen.ends()
    assert code == 0
    assert "3 steps" in text


def test_no_colour_if_one_does_not_want_it(url: str, gate: Gate, screen: Screen) -> None:
    colours = re.compile(r"\x1b\[(?:3[0-7]|9[0-7]|38)[;m]")
    for variable, is_coloured in (("", True), ("1", False)):
        gate.open_to(1)
        screen.type(f"NO_COLOR={variable}")
        screen.run("call", url, "steps", "count=2", gate.argument)
        screen.sees("1/2")
        assert bool(colours.search(screen.coloured())) == is_coloured
        gate.open_to(2)
        assert screen.ends()[0] == 0
    screen.type("NO_COLOR=")


def test_without_a_terminal_ctrl_c_leaves_it_running(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen(
        (sys.executable, "-m", "coatcheck", "call", url, "hold"),
        cwd=ROOT,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        monkeypatch.setenv("XDG_STATE_HOME", environment(tmp_path)["XDG_STATE_HOME"])
        wait_until(lambda: any(entry.status == "working" for entry in entries()))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out) == (130, "")
    assert left_behind(err)
