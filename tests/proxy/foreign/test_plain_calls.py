"""Clients that have tasks and do not ask for one: their calls are plain calls, as if no task were behind them."""

from __future__ import annotations

import pytest

from tests.proxy.foreign.callers import Caller, at_once, text_of, ticket_of
from tests.proxy.foreign.proxies import SLOW

CLIENTS = ("python_v1-http", "typescript_v1-http", "ext_tasks-2025-http")
pytestmark = [pytest.mark.slow, pytest.mark.parametrize("client", CLIENTS, indirect=True)]

RELATED = "io.modelcontextprotocol/related-task"


def test_what_a_plain_call_asks_is_of_no_task(client: Caller) -> None:
    """One after the other: the tasks package refuses a question that may be of several calls."""
    asked = len(client.puppet.asked)
    names = ("everything__trigger-elicitation-request", "fastmcp__ask", "tasks__ask", "plain__ask")
    seen = {name: client.puppet.call(name) for name in names}
    assert [name for name, result in seen.items() if "Ada" not in text_of(result)] == [], seen
    # A server that is met for the first time may ask for roots, in its own time.
    questions = [each for each in client.puppet.asked[asked:] if each["asked"] != "roots/list"]
    assert [each["asked"] for each in questions] == 4 * ["elicitation/create"]
    assert not any(RELATED in (each["params"].get("_meta") or {}) for each in questions)


def test_what_a_plain_call_has_a_model_say_is_of_no_task(client: Caller) -> None:
    asked = len(client.puppet.asked)
    for name in ("tasks__sample", "plain__sample", "fastmcp__sample"):
        assert text_of(client.puppet.call(name)) == "It said: Something"
    questions = [each for each in client.puppet.asked[asked:] if each["asked"] != "roots/list"]
    assert [each["asked"] for each in questions] == 3 * ["sampling/createMessage"]
    assert not any(RELATED in (each["params"].get("_meta") or {}) for each in questions)


def test_a_tool_that_its_server_runs_as_a_task_only_is_called_like_any_other(client: Caller) -> None:
    for name in ("fastmcp__only_as_task", "tasks__only_as_task"):
        assert text_of(client.puppet.call(name)) == "Yes"


def test_slow_plain_calls_are_answered_with_tickets(client: Caller) -> None:
    names = ("fastmcp__slow", "tasks__slow", "plain__slow")
    seen = at_once({name: lambda name=name: client.puppet.call(name, seconds=SLOW) for name in names})
    tickets = {name: ticket_of(result) for name, result in seen.items()}
    assert {name: ticket and ticket["tool"] for name, ticket in tickets.items()} == {name: name for name in names}
    for ticket in tickets.values():
        assert ticket
        assert text_of(client.puppet.call("wait_task", task_id=ticket["taskId"])) == f"It took {SLOW} seconds"


def test_a_ticket_is_asked_for_what_its_task_asks(client: Caller) -> None:
    """The question comes while the ticket is waited for."""
    asked = len(client.puppet.asked)
    ticket = ticket_of(client.puppet.call("everything__simulate-research-query", topic="python", ambiguous=True))
    assert ticket
    report = client.puppet.call("wait_task", task_id=ticket["taskId"])
    assert text_of(report).startswith("# Research Report: python (programming)")
    assert [each["asked"] for each in client.puppet.asked[asked:]] == ["elicitation/create"]


def test_a_ticket_is_given_back_and_its_call_cancelled(client: Caller) -> None:
    ticket = ticket_of(client.puppet.call("plain__slow", seconds=600))
    assert ticket
    client.puppet.call("cancel_task", task_id=ticket["taskId"])
    seen = client.puppet.call("get_task", task_id=ticket["taskId"])
    assert (seen["isError"], "cancelled" in text_of(seen)) == (True, True)
