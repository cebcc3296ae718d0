"""Timers go off, and leave nothing behind."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest

from coatcheck.errors import InvalidArgument
from coatcheck.proxy.activity.timers import Timer, Timers
from coatcheck.testing.builders import NOW
from tests.clock import Clock

pytestmark = pytest.mark.anyio

SOON, NEVER, LONG = 0.001, 3600.0, 5.0


class Ears:
    """Whoever is told that timers go off."""

    def __init__(self) -> None:
        self._heard: asyncio.Queue[Timer] = asyncio.Queue()

    def __call__(self, timer: Timer) -> None:
        self._heard.put_nowait(timer)

    async def next(self) -> Timer:
        return await asyncio.wait_for(self._heard.get(), LONG)

    @property
    def has_heard(self) -> bool:
        return not self._heard.empty()


@pytest.fixture
def ears() -> Ears:
    return Ears()


@pytest.fixture
async def timers(ears: Ears) -> AsyncGenerator[Timers]:
    made = Timers(ears, clock=Clock(), shortest_repeat=SOON)
    yield made
    made.close()


def handles(timers: Timers) -> dict[str, asyncio.TimerHandle]:
    return vars(timers)["_handles"]


async def test_p_085_a_timer_goes_off_once_and_is_gone(timers: Timers, ears: Ears) -> None:
    timer = timers.set(SOON, "look")
    assert timers.list() == [timer]
    heard = await ears.next()
    assert (heard.id, heard.message, heard.times_expired) == (timer.id, "look", 1)
    assert timers.list() == []
    assert not handles(timers)
    with pytest.raises(InvalidArgument, match="No timer"):
        timers.get(timer.id)


async def test_p_085_a_repeating_timer_goes_off_until_it_is_deleted(timers: Timers, ears: Ears) -> None:
    timer = timers.set(SOON, repeats=True)
    heard = [await ears.next() for _ in range(3)]
    assert [one.times_expired for one in heard] == [1, 2, 3]
    assert {one.id for one in heard} == {timer.id}
    assert timers.delete(timer.id).times_expired >= 3
    assert timers.list() == []
    assert not handles(timers)


async def test_p_085_timers_are_listed_by_when_they_go_off(timers: Timers) -> None:
    late, soon = timers.set(NEVER), timers.set(NEVER / 2, "sooner")
    assert timers.list() == [soon, late]
    assert timers.get(late.id) == late


async def test_p_085_a_timer_is_shown_with_its_times(timers: Timers) -> None:
    timer = timers.set(90, "look", repeats=True)
    assert (timer.set_at, timer.due_at) == (NOW, NOW + timedelta(seconds=90))
    assert timer.to_json() == {
        "timer_id": timer.id,
        "duration_ms": 90_000,
        "message": "look",
        "repeats": True,
        "created_at": "2026-01-01T00:00:00.000Z",
        "expires_at": "2026-01-01T00:01:30.000Z",
        "times_expired": 0,
    }


async def test_p_085_there_are_at_most_a_hundred(timers: Timers) -> None:
    made = [timers.set(NEVER) for _ in range(100)]
    with pytest.raises(InvalidArgument, match="There are 100 timers, the most allowed; delete one"):
        timers.set(NEVER)
    timers.delete(made[0].id)
    timers.set(NEVER)


async def test_p_085_a_day_is_the_longest(timers: Timers) -> None:
    timers.set(24 * 60 * 60)
    with pytest.raises(InvalidArgument, match="up to 24 h"):
        timers.set(24 * 60 * 60 + 1)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
async def test_p_053_a_duration_that_is_none_is_refused(timers: Timers, seconds: float) -> None:
    with pytest.raises(InvalidArgument, match="more than 0 s"):
        timers.set(seconds)
    assert not handles(timers)


async def test_a_timer_does_not_repeat_so_often_that_nothing_else_gets_done(ears: Ears) -> None:
    timers = Timers(ears)
    with pytest.raises(InvalidArgument, match="every 1 s or less often"):
        timers.set(0.5, repeats=True)
    timers.set(1, repeats=True)
    timers.close()


async def test_p_053_what_is_not_there_cannot_be_deleted(timers: Timers) -> None:
    with pytest.raises(InvalidArgument, match="list the timers to see those that are"):
        timers.delete("gone")


async def test_p_048_deleting_clears_the_handle(timers: Timers) -> None:
    timer = timers.set(NEVER)
    handle = handles(timers)[timer.id]
    assert timers.delete(timer.id) == timer
    assert handle.cancelled()
    assert not handles(timers)


async def test_p_048_closing_clears_all_handles(timers: Timers) -> None:
    for repeats in (False, True):
        timers.set(NEVER, repeats=repeats)
    armed = list(handles(timers).values())
    timers.close()
    assert all(handle.cancelled() for handle in armed)
    assert timers.list() == []
    assert not handles(timers)


async def test_a_deleted_timer_is_not_heard(timers: Timers, ears: Ears) -> None:
    gone, other = timers.set(SOON, "gone"), timers.set(SOON * 2, "other")
    timers.delete(gone.id)
    assert (await ears.next()).id == other.id
    assert not ears.has_heard


async def test_whoever_is_told_may_delete_the_timer() -> None:
    told = asyncio.get_running_loop().create_future()

    def stop(timer: Timer) -> None:
        told.set_result(timers.delete(timer.id))

    timers = Timers(stop, shortest_repeat=SOON)
    timers.set(SOON, repeats=True)
    await asyncio.wait_for(told, LONG)
    assert timers.list() == []
    assert not handles(timers)


async def test_a_timer_goes_on_though_nobody_could_be_told(caplog: pytest.LogCaptureFixture) -> None:
    heard: asyncio.Queue[int] = asyncio.Queue()

    def fail(timer: Timer) -> None:
        heard.put_nowait(timer.times_expired)
        raise RuntimeError("no ears")

    timers = Timers(fail, shortest_repeat=SOON)
    timers.set(SOON, repeats=True)
    assert [await asyncio.wait_for(heard.get(), LONG) for _ in range(2)] == [1, 2]
    timers.close()
    assert "Nobody could be told" in caplog.text
