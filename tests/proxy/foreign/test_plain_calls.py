"""Clients that have tasks and do not ask for one: their calls are plain calls, as if no task were behind them."""

from __future__ import annotations

import pytest

from tests.interop.programs import OLD_SDK
from tests.proxy.foreign.callers import Caller, at_once, text_of, ticket_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize(
        "client", ["python_v1-http", "typescript_v1-http", "ext_tasks-2025-http"], indirect=True
    ),
]

ASKING = ("everything__trigger-elicitation-request", "fastmcp__ask", "tasks__ask", "plain__ask")
RELATED = "io.modelcontextprotocol/related-task"
assert OLD_SDK


def test_questions_of_a_plain_call_are_of_no_task(client: Caller) -> None:
    asked = len(client.puppet.asked)
    seen = at_once({name: lambda name=name: client.puppet.call(name) for name in ASKING})
    assert [name for name, result in seen.items() if "Ada" not in text_of(result)] == [], seen
    questions = client.puppet.asked[asked:]
    assert [each["asked"] for each in questions] == 4 * ["elicitation/create"]
    assert not any(RELATED in (each["params"].get("_meta") or {}) for each in questions)
