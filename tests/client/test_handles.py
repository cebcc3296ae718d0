"""`start`, and the handle it gives."""

from __future__ import annotations

import asyncio

import pytest

from coatcheck.client import Client, TaskHandle, ToolResult
from coatcheck.client.client import Mode
from coatcheck.errors import InputRequired, InvalidArgument, TaskCancelled, TaskLost, ToolFailed
from coatcheck.task import Status
from tests.client.app import make
from tests.client.conftest import Person

pytestmark = pytest.mark.anyio
PATIENCE = 30


async def _at_gate(client: Client, name: str = "one") -> TaskHandle[ToolResult]:
    """Return a handle of a task that waits at the gate."""
    handle = await client.start("gate", {"name": name})
    async with asyncio.timeout(PATIENCE):
        async for snapshot in handle.events():
            if snapshot.progress:
                return handle
    raise AssertionError("It ended")


async def test_a_handle_can_be_awaited(client: Client) -> None:
    handle = await client.start("add", {"a": 1, "b": 2})
    assert (await handle).data == 3
    assert (await handle).data == 3
    assert (handle.tool, handle.snapshot.status) == ("add", Status.COMPLETED)


async def test_the_status_is_that_of_the_server(client: Client) -> None:
    handle = await _at_gate(client)
    assert (await handle.status()).status is Status.WORKING
    await client.call("open_gate", {"name": "one"})
    await handle.wait()
    assert (await handle.status()).status is Status.COMPLETED


async def test_waiting_for_a_time_cancels_nothing(client: Client) -> None:
    handle = await _at_gate(client)
    assert (await handle.wait(timeout=0.05)).status is Status.WORKING
    await client.call("open_gate", {"name": "one"})
    assert (await handle.wait(timeout=PATIENCE)).status is Status.COMPLETED


async def test_events_end_with_the_end(client: Client) -> None:
    handle = await _at_gate(client)
    await client.call("open_gate", {"name": "one"})
    seen = [snapshot.status async for snapshot in handle.events()]
    assert set(seen[:-1]) <= {Status.WORKING}
    assert seen[-1] is Status.COMPLETED


async def test_several_may_wait_for_one_task(client: Client) -> None:
    handle = await _at_gate(client)
    waiting = [asyncio.create_task(handle.wait()) for _ in range(3)]
    result = asyncio.ensure_future(handle.result())
    await client.call("open_gate", {"name": "one"})
    async with asyncio.timeout(PATIENCE):
        assert {(await waiter).status for waiter in waiting} == {Status.COMPLETED}
        assert (await result).data == "through one"


async def test_a_task_is_cancelled_when_asked_to(client: Client) -> None:
    handle = await _at_gate(client)
    assert (await handle.cancel()).status is Status.CANCELLED
    with pytest.raises(TaskCancelled, match=f"Task {handle.id} was cancelled"):
        await handle


async def test_one_that_has_ended_can_be_cancelled_without_harm(client: Client) -> None:
    handle = await client.start("add", {"a": 1, "b": 2})
    await handle.wait()
    assert (await handle.cancel()).status is Status.COMPLETED


async def test_whoever_stops_waiting_does_not_stop_the_task(client: Client) -> None:
    handle = await _at_gate(client)
    waiting = asyncio.create_task(handle.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await handle.status()).status is Status.WORKING


async def test_a_call_that_is_cancelled_cancels_its_task_only_if_asked_to(client: Client) -> None:
    handles: dict[bool, str] = {}
    for cancels in (False, True):
        is_under_way = asyncio.Event()
        ids: list[str] = []

        def told(snapshot: object, ids: list[str] = ids, under_way: asyncio.Event = is_under_way) -> None:
            ids.append(getattr(snapshot, "id", ""))
            under_way.set()

        arguments = {"name": f"gate {cancels}"}
        calling = asyncio.create_task(client.call("gate", arguments, on_change=told, cancel_on_abandon=cancels))
        async with asyncio.timeout(PATIENCE):
            await is_under_way.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        handles[cancels] = ids[0]
    async with asyncio.timeout(PATIENCE):
        assert (await client.handle(handles[True]).wait()).status is Status.CANCELLED
    assert (await client.handle(handles[False]).status()).status is Status.WORKING


async def test_a_call_that_takes_too_long_says_which_task_it_is(client: Client) -> None:
    with pytest.raises(TimeoutError, match=r"gate has not ended after 0.2 seconds; it is task \S+") as raised:
        await client.call("gate", {"name": "slow"}, timeout=0.2)
    task_id = str(raised.value).rsplit(maxsplit=1)[-1]
    await client.call("open_gate", {"name": "slow"})
    assert (await client.handle(task_id)).data == "through slow"


async def test_a_task_that_is_not_there_is_lost(client: Client) -> None:
    with pytest.raises(TaskLost, match="Task nothing is lost: the server does not know it"):
        await client.handle("nothing").status()
    with pytest.raises(TaskLost):
        await client.handle("nothing")


async def test_a_task_that_asks_where_nobody_can_answer_says_what_it_asks(mode: Mode) -> None:
    async with Client(make(), mode=mode, answers_later=True) as client:
        handle = await client.start("greet")
        with pytest.raises(InputRequired, match="asks 1 question"):
            await handle
        assert handle.snapshot.status is Status.INPUT_REQUIRED


async def test_a_task_that_needs_an_answer_fails_if_the_client_has_none_to_give(mode: Mode) -> None:
    async with Client(make(), mode=mode) as client:
        with pytest.raises(ToolFailed, match="did not declare the elicitation capability"):
            await client.call("greet")


async def test_a_question_can_be_answered_by_its_key() -> None:
    async with Client(make(), mode="2026-07-28", answers_later=True) as client:
        handle = await client.start("greet")
        with pytest.raises(InputRequired) as raised:
            await handle
        (key,) = raised.value.questions
        await handle.answer({key: {"action": "accept", "content": {"name": "Ann"}}})
        assert (await handle).data == "Hello, Ann!"


async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays() -> None:
    async with Client(make(), mode="2026-07-28", answers_later=True) as client:
        handle = await client.start("greet")
        with pytest.raises(InputRequired) as raised:
            await handle
        (key,) = raised.value.questions
        with pytest.raises(InvalidArgument, match="does not take the answer"):
            await handle.answer({key: {"action": "accept", "content": {"name": 5}}})
        await handle.answer({key: {"action": "decline"}})
        assert (await handle).data == "decline"


async def test_a_plain_call_has_a_handle_too(client: Client) -> None:
    handle = await client.start("plain_gate", {"name": "plain"})
    assert handle.snapshot.status is Status.WORKING
    await client.call("open_gate", {"name": "plain"})
    assert (await handle).data == "through plain"


async def test_a_plain_call_can_be_cancelled(client: Client) -> None:
    handle = await client.start("plain_gate", {"name": "plain"})
    assert (await handle.cancel()).status is Status.CANCELLED
    with pytest.raises(TaskCancelled):
        await handle


async def test_a_person_goes_on_thinking_while_nobody_waits(client: Client, person: Person) -> None:
    person.may_answer.clear()
    handle = await client.start("greet")
    waiting = asyncio.create_task(handle.wait())
    async with asyncio.timeout(PATIENCE):
        await person.is_asked.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        person.may_answer.set()
        assert (await handle).data == "Hello, number 1!"
    assert person.asked == ["Who are you?"]
