"""What the client makes of servers that do not do as the protocol says."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.session import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from coatcheck.client import Client
from coatcheck.errors import ProtocolViolation, ServerError, TaskLost, ToolFailed

pytestmark = pytest.mark.anyio
_SINNER = Path(__file__).parent / "sinner.py"


@asynccontextmanager
async def client_of(sin: str, **options: Any) -> AsyncGenerator[Client]:
    async with Client([sys.executable, str(_SINNER), sin], ledger=False, **options) as client:
        yield client


@pytest.mark.parametrize(
    "sin",
    [
        "none",
        "an unknown status",
        "no interval",
        "nonsense for numbers",
        "a shrinking lifetime",
        "a poll that says it made a task",
        "junk in the list",
        "a bad moment",
        "noise",
        "a task nobody asked for",
    ],
)
async def test_a_result_is_had_all_the_same(sin: str) -> None:
    async with client_of(sin) as client:
        assert (await client.call("tool")).text == "done"


@pytest.mark.parametrize(
    ("sin", "error", "sentence"),
    [
        ("another task", ProtocolViolation, "Asked for task t1, the server answered with another"),
        ("a task without a name", ProtocolViolation, "The server answered with a task that has no id"),
        ("a task for a list", ProtocolViolation, "The server answered tools/list with no list of tools"),
        ("no list", ProtocolViolation, "The server answered tools/list with no list of tools"),
        ("an early error", ServerError, "the client lacks what this needs (elicitation); give it the callbacks"),
        ("a missing capability", ServerError, "the client lacks what this needs (sampling); give it the callbacks"),
        ("an end without a result", ProtocolViolation, "Tool 'tool' returned something that is no result: content"),
        ("a failure without an error", ToolFailed, "It broke"),
        ("a failure", ToolFailed, "It broke"),
        ("a lost task", TaskLost, "Task t1 is lost: the server does not know it"),
        ("a lost task, in other words", TaskLost, "Task t1 is lost: the server does not know it"),
        ("for ever out of order", ServerError, "Out of order (-32603)"),
    ],
)
async def test_what_cannot_be_had_is_told_in_a_sentence(sin: str, error: type[Exception], sentence: str) -> None:
    async with client_of(sin) as client:
        with pytest.raises(error) as raised:
            await client.call("tool")
        assert sentence in str(raised.value)
        assert "\n" not in str(raised.value)


async def test_a_failure_keeps_its_code_and_data() -> None:
    async with client_of("a failure") as client:
        with pytest.raises(ToolFailed) as raised:
            await client.call("tool")
        assert (raised.value.code, raised.value.data) == (-32050, [1])


async def test_a_question_that_is_shown_again_is_not_asked_again() -> None:
    asked: list[str] = []

    async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={})

    async with client_of("a question again and again", elicitation_callback=answer) as client:
        assert (await client.call("tool")).text == "done"
    assert asked == ["Sure?"]
