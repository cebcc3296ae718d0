"""`call`: one call that hides everything."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import pytest

from coatcheck.client import Client, Snapshot
from coatcheck.client.client import Mode
from coatcheck.errors import InvalidArgument, ProtocolViolation, ToolFailed, UnknownTool
from tests.client.app import Point, make
from tests.client.conftest import Person

pytestmark = pytest.mark.anyio
PATIENCE = 30


async def test_a_call_returns_the_tools_result(client: Client) -> None:
    result = await client.call("add", {"a": 2, "b": 3})
    assert (result.data, result.text, result.is_error) == (5, "5", False)


async def test_a_tool_that_is_no_task_is_called_all_the_same(client: Client) -> None:
    assert (await client.call("at_once", {"word": "now"})).data == "now"


async def test_a_result_is_read_as_the_type_one_wants(client: Client) -> None:
    @dataclass
    class Place:
        x: int
        y: int

    assert await client.call("point", {"x": 1, "y": 2}, returns=Point) == Point(x=1, y=2)
    assert await client.call("point", {"x": 1, "y": 2}, returns=Place) == Place(1, 2)
    assert await client.call("add", {"a": 1, "b": 2}, returns=int) == 3


async def test_a_result_of_another_type_is_told_and_not_lost(client: Client) -> None:
    with pytest.raises(ProtocolViolation, match="The result of 'point' is no") as raised:
        await client.call("point", {"x": 1, "y": 2}, returns=int)
    assert getattr(raised.value.result, "data", None) == {"x": 1, "y": 2}


async def test_a_tools_own_error_is_raised_with_its_result(client: Client) -> None:
    with pytest.raises(ToolFailed, match="Error executing tool fail") as raised:
        await client.call("fail")
    assert getattr(raised.value.result, "is_error", None) is True


async def test_a_tools_own_error_may_be_had_as_a_result(client: Client) -> None:
    assert (await client.call("fail", raise_on_error=False)).is_error


async def test_an_error_of_the_protocol_has_its_code_and_data(client: Client) -> None:
    with pytest.raises(ToolFailed, match="Never") as raised:
        await client.call("refuse")
    assert raised.value.code == -32050
    assert dict(cast("dict[str, str]", raised.value.data))["why"] == "so"


async def test_an_unknown_tool_is_told_with_those_there_are(client: Client) -> None:
    with pytest.raises(UnknownTool, match=r"no tool 'nothing'; it has add, at_once, count"):
        await client.call("nothing")


async def test_arguments_that_do_not_fit_are_told(client: Client, mode: Mode) -> None:
    error = InvalidArgument if mode == "2025-11-25" else ToolFailed
    with pytest.raises(error, match="valid integer"):
        await client.call("add", {"a": "x", "b": 1})


async def test_arguments_without_a_json_form_are_refused_before_anything_is_sent(client: Client) -> None:
    with pytest.raises(InvalidArgument, match="no JSON form"):
        await client.call("add", {"a": object()})


async def test_changes_are_told_as_they_come(client: Client) -> None:
    seen: list[Snapshot] = []
    is_at_gate = asyncio.Event()

    def told(snapshot: Snapshot) -> None:
        seen.append(snapshot)
        if snapshot.progress and snapshot.message and snapshot.message.startswith("at the gate"):
            is_at_gate.set()

    calling = asyncio.create_task(client.call("gate", {"name": "one"}, on_change=told))
    async with asyncio.timeout(PATIENCE):
        await is_at_gate.wait()
        await client.call("open_gate", {"name": "one"})
        assert (await calling).data == "through one"
    assert seen[-1].status == "completed"
    assert (seen[0].progress and seen[0].progress.done, seen[0].progress and seen[0].progress.total) == (1, 2)


async def test_a_call_that_is_no_task_tells_of_its_progress(client: Client) -> None:
    seen: list[Snapshot] = []
    is_told = asyncio.Event()

    def told(snapshot: Snapshot) -> None:
        seen.append(snapshot)
        is_told.set()

    calling = asyncio.create_task(client.call("plain_gate", {"name": "two"}, on_change=told))
    async with asyncio.timeout(PATIENCE):
        await is_told.wait()
        await client.call("open_gate", {"name": "two"})
        assert (await calling).data == "through two"
    assert [(snapshot.message, snapshot.status.value) for snapshot in seen] == [
        ("at the gate", "working"),
        ("at the gate", "completed"),
    ]


async def test_a_person_is_asked_each_question_once(client: Client, person: Person) -> None:
    assert (await client.call("greet")).data == "Hello, number 1!"
    assert person.asked == ["Who are you?"]


async def test_two_questions_that_read_the_same_are_two(client: Client, person: Person) -> None:
    assert (await client.call("greet_two")).data == "number 1 and number 2"
    assert person.asked == ["Who are you?"] * 2


@pytest.mark.filterwarnings("ignore:The sampling capability is deprecated")
async def test_a_model_may_be_asked(client: Client) -> None:
    assert (await client.call("think")).data == "Something"


async def test_many_calls_at_once_each_get_their_own(client: Client) -> None:
    results = await asyncio.gather(*(client.call("add", {"a": n, "b": n}) for n in range(50)))
    assert [result.data for result in results] == [2 * n for n in range(50)]


async def test_what_a_callback_raises_reaches_the_caller() -> None:
    async def answer(context: object, params: object) -> Any:
        raise KeyError("the callback's own")

    async with Client(make(), mode="2026-07-28", elicitation_callback=answer) as client:
        with pytest.raises(KeyError, match="the callback's own"):
            await client.call("greet")


async def test_a_call_with_a_key_runs_once() -> None:
    async with Client(make(), mode="2026-07-28") as client:
        first = await client.start("add", {"a": 1, "b": 1}, idempotency_key="k")
        second = await client.start("add", {"a": 1, "b": 1}, idempotency_key="k")
        assert first.id == second.id
        with pytest.raises(InvalidArgument, match="was already used for a different call"):
            await client.start("add", {"a": 1, "b": 2}, idempotency_key="k")
