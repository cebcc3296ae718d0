"""Every kind of question, asked and answered in a real terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.terminal.app import SIGN_IN
from tests.terminal.screen import Screen

pytestmark = pytest.mark.slow


def result(text: str) -> Any:
    """Return the JSON a tool printed, however the terminal folded it."""
    printed = text.rpartition("exit=")[0]
    return json.loads("".join(line.rstrip("\n") for line in printed[printed.index('{"action"') :].splitlines()))


def test_every_kind_of_field_is_asked_for_until_it_is_right(url: str, screen: Screen) -> None:
    screen.run("call", url, "order")
    text = screen.sees("What will it be?", "/decline says no", "Who it is for.", "Name (text, 2 to 20 characters):")
    assert "━" not in text  # no bar while one is asked
    screen.asks("Name", "A")
    screen.sees("That has 1 characters; it takes 2 to 20 characters.")
    screen.asks("Name", "Ann")
    screen.asks("E-mail (an e-mail address)", "ann")
    screen.sees("That is not an e-mail address.")
    screen.asks("E-mail", "ann@example.org")
    screen.asks("Site (a URL, as https://example.org, optional)", "")
    screen.asks("Day (a date, as 2026-07-28, optional)", "2026-07-28")
    screen.asks("At (a date and time", "2026-07-28T09:30:00Z")
    screen.asks("Pages (whole number 1 to 10) [3]", "11")
    screen.sees("11 is not a whole number 1 to 10.")
    screen.asks("Pages", "")
    screen.asks("Price (number at least 0, optional)", "2.50")
    screen.asks("Loud (y/n)", "maybe")
    screen.sees("Type y for yes or n for no.")
    screen.asks("Loud", "y")
    screen.sees("  1  Red", "  2  Green")
    screen.asks("Colour (1-2)", "Green")
    screen.asks("Size (1-2, optional)", "/skip")
    screen.asks("Days (several of 1-3", "1, wed")
    screen.sees("Name    Ann", "Colour  Green", "Size    (left out)")
    screen.asks("Send it? (Y/n, n asks again)", "")
    code, text = screen.ends()
    assert code == 0
    assert result(text) == {
        "action": "accept",
        "content": {
            "name": "Ann",
            "email": "ann@example.org",
            "day": "2026-07-28",
            "at": "2026-07-28T09:30:00+00:00",
            "pages": 3,
            "price": 2.5,
            "loud": True,
            "colour": "g",
            "days": ["mon", "wed"],
        },
    }


@pytest.mark.parametrize(("line", "action"), [("/decline", "decline"), ("/cancel", "cancel")])
def test_one_can_decline_and_cancel(line: str, action: str, url: str, screen: Screen) -> None:
    screen.run("call", url, "approve")
    screen.asks("Approved (y/n)", line)
    code, text = screen.ends()
    assert (code, result(text)) == (0, {"action": action})


def test_two_questions_come_one_after_another(url: str, screen: Screen) -> None:
    screen.run("call", url, "two")
    text = screen.sees("Word (text):")
    first, second = ("First?", "Second?") if "First?" in text else ("Second?", "First?")
    assert second not in text
    screen.asks("Word", first.lower())
    screen.sees(second)
    screen.asks("Word", second.lower())
    code, text = screen.ends()
    assert code == 0
    assert '"first?"' in text
    assert '"second?"' in text


def test_a_link_is_opened_if_one_says_so(url: str, tmp_path: Path, screen: Screen) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    screen.type(f"BROWSER={browser}")
    screen.run("call", url, "sign_in")
    screen.sees("Please sign in.", SIGN_IN, "It leads to example.org.")
    assert not opened.exists()
    screen.asks("Type o to open it in the browser", "o")
    screen.sees("Opened.")
    screen.asks("Enter when you are done", "")
    code, text = screen.ends()
    assert code == 0
    assert "accept" in text
    assert opened.read_text().strip() == SIGN_IN


def test_a_person_may_answer_for_a_model(url: str, screen: Screen) -> None:
    screen.run("call", url, "think")
    screen.sees("user: What is the answer?")
    screen.asks(">", "42, of course")
    screen.asks(">", "")
    code, text = screen.ends()
    assert code == 0
    assert "a person: 42, of course" in text


def test_a_person_may_decline_to_answer_for_a_model(url: str, screen: Screen) -> None:
    screen.run("call", url, "think")
    screen.asks(">", "/decline")
    code, text = screen.ends()
    assert code == 4
    assert "The person declined to answer for the model, but it still asks." in text


def test_a_question_that_is_taken_back_is_not_asked_any_more(url: str, screen: Screen) -> None:
    screen.run("call", url, "withdrawn")
    screen.sees("Still there?")
    code, text = screen.ends()
    assert code == 0
    assert "Nobody asks for that any more." in text
    assert "Never mind" in text


def test_a_task_is_answered_later_and_by_another_command(url: str, screen: Screen) -> None:
    screen.run("call", url, "approve", "--detach")
    code, text = screen.ends()
    assert code == 0
    task_id = text.splitlines()[0]
    screen.run("answer", task_id)
    screen.asks("Approved (y/n)", "yes")
    code, text = screen.ends()
    assert (code, "answered" in text) == (0, True)
    screen.run("wait", task_id)
    code, text = screen.ends()
    assert (code, result(text)) == (0, {"action": "accept", "content": {"approved": True}})


def test_what_stdin_was_for_does_not_keep_one_from_being_asked(url: str, bash: Screen) -> None:
    bash.type(f'clear; echo \'{{"version": "7"}}\' | coatcheck call {url} approve --input - ; echo exit=$?')
    bash.sees("Deploy 7?")
    bash.asks("Approved (y/n)", "n")
    code, text = bash.ends()
    assert (code, result(text)) == (0, {"action": "accept", "content": {"approved": False}})
