"""Small things that are said and understood: durations, ids, exit codes, and text that would be obeyed."""

from __future__ import annotations

import re

import pytest

from coatcheck import errors
from coatcheck.cli.commands import SUMMARIES
from coatcheck.cli.durations import ago, seconds
from coatcheck.cli.exits import Exit, LeftRunning, StillRunning, Unanswered, exit_code
from coatcheck.cli.failures import as_json, report
from coatcheck.cli.ledger import short_names, where
from coatcheck.cli.plain import one_line, plain
from tests.cli.caller import Caller
from tests.cli.serving import ROOT

PAGE = (ROOT / "docs" / "cli.md").read_text()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("90", 90),
        ("0.5", 0.5),
        ("30s", 30),
        ("15m", 900),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1d", 86400),
        (" 1H 5s ", 3605),
    ],
)
def test_a_duration_is_understood(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "soon", "-1", "1x", "h", "1h30"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidArgument):
        seconds(text)


def test_a_time_ago_is_said_in_one_unit() -> None:
    assert [ago(passed) for passed in (-3, 5, 60, 7300, 200_000)] == ["0 s", "5 s", "1 min", "2 h", "2 d"]


def test_names_are_as_short_as_they_can_be() -> None:
    assert short_names(["abcdefghij", "zyxwvutsrq"]) == {"abcdefghij": "abcdefgh", "zyxwvutsrq": "zyxwvuts"}
    assert list(short_names(["abcdefgh1x", "abcdefgh2x"]).values()) == ["abcdefgh1", "abcdefgh2"]
    assert short_names([]) == {}
    assert where({"command": "a", "args": ["b"]}) == "a b"


@pytest.mark.parametrize("command", ["wait", "status", "cancel", "answer"])
def test_an_id_that_begins_with_a_dash_is_no_option(command: str, coatcheck: Caller) -> None:
    done = coatcheck(command, "-qabcdefghijklmnopqrstuvw", "--json")
    assert done.code == 2
    assert "has no task '-qabcdefghijklmnopqrstuvw'" in done.sentence


def test_a_terminal_is_not_told_what_to_do() -> None:
    assert plain("a\x1b[31mb\x07c\r\nd\te\x9b\u202ef") == "a�[31mb�c\nd\te��f"
    assert one_line(" a\n\n b\x00") == "a b�"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ToolFailed("no"), 1),
        (errors.ServerError("no", -1), 1),
        (errors.InvalidArgument("no"), 2),
        (errors.UnknownTool("no"), 2),
        (errors.StoreUnavailable("no"), 2),
        (errors.CannotConnect("no"), 3),
        (errors.NotAuthorized("there", 401), 3),
        (errors.Interrupted("tool", "no"), 3),
        (errors.InputRequired("t", {}), 4),
        (Unanswered("no"), 4),
        (errors.TaskLost("t", "no"), 5),
        (errors.TaskCancelled("t"), 6),
        (StillRunning("no"), 124),
        (LeftRunning("no"), 130),
        (KeyboardInterrupt(), 130),
        (RuntimeError("no"), 70),
    ],
)
def test_an_error_has_an_exit_code(error: BaseException, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(error) == code
    assert report(BaseExceptionGroup("several", [error])) == code
    said = capsys.readouterr().err
    assert said.startswith("coatcheck: ")
    assert said.count("\n") == 1
    assert as_json(error)["error"]["exit_code"] == code


def test_the_page_states_the_exit_codes() -> None:
    stated = re.findall(r"^\| (\d+) \|", PAGE.partition("## Exit codes")[2], re.MULTILINE)
    assert sorted(map(int, stated)) == sorted([*Exit, 141])


def test_the_page_names_every_command() -> None:
    assert [name for name in SUMMARIES if name != "serve" and f"coatcheck {name}" not in PAGE] == []
