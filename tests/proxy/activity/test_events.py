"""Events are told once, held for replay, and wake whoever waits."""

import asyncio
import logging

import pytest

from coatcheck.proxy.activity.events import Event, Events, EventType
from coatcheck.testing.builders import NOW
from tests.clock import Clock

pytestmark = pytest.mark.anyio

LONG, SHORT = 5.0, 0.01


def numbers(events: list[Event]) -> list[int]:
    return [event.data["n"] for event in events]


def some_events(count: int, bound: int = 1000) -> Events:
    events = Events(bound=bound)
    for n in range(count):
        events.add(EventType.NOTIFICATION, "s", n=n)
    return events


async def until_waiting(*waits: asyncio.Task[list[Event]]) -> None:
    """A task has run up to its first wait after one turn of the loop."""
    await asyncio.sleep(0)
    assert not any(wait.done() for wait in waits)


def test_p_069_there_is_a_type_for_all_that_is_told() -> None:
    kinds = "elicitation_request sampling_request task_created task_completed task_failed task_cancelled task_expired"
    servers = "server_connected server_disconnected server_reconnected server_added server_removed notification"
    expiries = "elicitation_expired sampling_expired timer_expired"
    assert {str(kind) for kind in EventType} == set(f"{kinds} {servers} {expiries}".split())


def test_an_event_is_written_as_the_meta_tools_show_it() -> None:
    event = Events(clock=Clock()).add(EventType.TASK_FAILED, "files", task_id="t", error="no")
    assert event.to_json() == {
        "id": event.id,
        "type": "task_failed",
        "server": "files",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "data": {"task_id": "t", "error": "no"},
    }
    assert event.at == NOW


def test_an_event_may_be_of_no_server() -> None:
    assert Events().add(EventType.TIMER_EXPIRED, kind="data may be named anything").to_json()["server"] is None


def test_p_068_an_event_is_taken_once() -> None:
    events = some_events(2)
    assert events.has_undelivered
    assert numbers(events.take()) == [0, 1]
    assert not events.has_undelivered
    assert events.take() == []
    events.add(EventType.NOTIFICATION, n=2)
    assert numbers(events.take()) == [2]


def test_p_071_reading_and_marking_is_one_step() -> None:
    events = some_events(3)
    assert events.last_delivered_id is None
    taken = events.take()
    assert events.last_delivered_id == taken[-1].id == events.last_id
    latest = events.add(EventType.NOTIFICATION, n=3)
    assert (events.last_delivered_id, events.last_id) == (taken[-1].id, latest.id)


def test_p_070_what_came_after_an_event_can_be_read_again_and_again() -> None:
    events = some_events(5)
    taken = events.take()
    assert numbers(events.since(taken[2].id)) == [3, 4]
    assert numbers(events.since(taken[2].id)) == [3, 4]
    assert events.since(taken[-1].id) == []


@pytest.mark.parametrize("last_event_id", [None, "", "01ARZ3NDEKTSV4RRFFQ69G5FAV"])
def test_p_070_an_unknown_id_gives_everything_held(last_event_id: str | None) -> None:
    assert numbers(some_events(3).since(last_event_id)) == [0, 1, 2]


def test_p_070_replay_does_not_move_the_cursor() -> None:
    events = some_events(2)
    events.since(None)
    assert numbers(events.take()) == [0, 1]


def test_p_077_when_full_the_oldest_tenth_is_dropped() -> None:
    events = some_events(1000)
    assert len(events.since(None)) == 1000
    events.add(EventType.NOTIFICATION, n=1000)
    assert numbers(events.since(None)) == list(range(100, 1001))


def test_p_077_a_warning_is_given_once_at_four_fifths(caplog: pytest.LogCaptureFixture) -> None:
    events = some_events(799)
    assert caplog.records == []
    for n in range(799, 900):
        events.add(EventType.NOTIFICATION, n=n)
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert warning.getMessage().startswith("800 events are held, 800 of them undelivered; from 1000 on")


def test_p_077_what_is_dropped_untold_is_not_dropped_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    events = some_events(10, bound=10)
    events.take()
    for n in range(10, 20):
        events.add(EventType.NOTIFICATION, n=n)
    assert not any("dropped that nobody" in record.getMessage() for record in caplog.records)
    for n in (20, 21):
        events.add(EventType.NOTIFICATION, n=n)
        assert caplog.records[-1].getMessage().startswith("Events were dropped that nobody had asked for")
        assert caplog.records[-1].getMessage().endswith(": 1")
    assert numbers(events.take()) == list(range(12, 22))


def test_p_070_an_id_that_was_dropped_is_as_unknown_as_any() -> None:
    events = some_events(10, bound=10)
    first = events.since(None)[0].id
    events.add(EventType.NOTIFICATION, n=10)
    assert numbers(events.since(first)) == list(range(1, 11))


def test_ids_rise_whatever_the_clock_does() -> None:
    clock = Clock()
    events = Events(clock=clock)
    events.add(EventType.NOTIFICATION)
    clock.turn(hours=-1)
    events.add(EventType.NOTIFICATION)
    first, second = events.take()
    assert first.id < second.id


async def test_p_023_what_is_undelivered_is_returned_at_once_and_not_taken() -> None:
    events = some_events(2)
    assert numbers(await events.wait(LONG)) == [0, 1]
    assert numbers(events.take()) == [0, 1]


async def test_p_024_a_waiter_is_woken_by_an_event() -> None:
    events = Events()
    wait = asyncio.create_task(events.wait(LONG))
    await until_waiting(wait)
    event = events.add(EventType.SERVER_DISCONNECTED, "s")
    assert await wait == [event]


async def test_a_waiter_gets_all_that_was_added_until_it_runs() -> None:
    events = some_events(3)
    events.take()
    wait = asyncio.create_task(events.wait(LONG))
    await until_waiting(wait)
    for n in (3, 4, 5):
        events.add(EventType.NOTIFICATION, n=n)
    assert numbers(await wait) == [3, 4, 5]


async def test_p_022_after_its_time_a_waiter_gets_nothing() -> None:
    events = some_events(1)
    events.take()
    assert await events.wait(SHORT) == []
    assert await events.wait(0) == []


async def test_p_031_all_waiters_get_the_same_trigger_and_the_first_takes_the_buffer() -> None:
    events = Events()

    async def activity() -> tuple[list[Event], list[Event]]:
        return await events.wait(LONG), events.take()

    tasks = [asyncio.create_task(activity()) for _ in range(3)]
    await asyncio.sleep(0)
    event = events.add(EventType.ELICITATION_REQUEST, "s")
    answers = await asyncio.gather(*tasks)
    assert [trigger for trigger, _ in answers] == [[event]] * 3
    assert [taken for _, taken in answers] == [[event], [], []]


async def test_p_048_a_cancelled_waiter_leaves_nothing_behind() -> None:
    events = Events()
    wait = asyncio.create_task(events.wait(3600))
    await until_waiting(wait)
    wait.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wait
    assert not vars(events)["_waiters"]
    events.add(EventType.NOTIFICATION)
    assert len(events.take()) == 1


async def test_p_048_a_waiter_that_was_woken_or_gave_up_leaves_nothing_behind() -> None:
    events = Events()
    await events.wait(SHORT)
    wait = asyncio.create_task(events.wait(LONG))
    await until_waiting(wait)
    events.add(EventType.NOTIFICATION)
    await wait
    assert not vars(events)["_waiters"]


async def test_a_session_that_ends_keeps_nobody_waiting() -> None:
    events = Events()
    wait = asyncio.create_task(events.wait(3600))
    await until_waiting(wait)
    await events.close()
    assert await asyncio.wait_for(wait, LONG) == []


async def test_a_waiter_that_is_cancelled_while_it_is_woken_takes_nothing_from_the_others() -> None:
    events = Events()
    first, second = asyncio.create_task(events.wait(LONG)), asyncio.create_task(events.wait(LONG))
    await until_waiting(first, second)
    event = events.add(EventType.NOTIFICATION)
    first.cancel()
    assert await second == [event]
    assert events.take() == [event]
    await asyncio.wait([first])
