"""P-055, P-068: events survive a restart, in every store there is."""

import asyncio
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from coatcheck import Engine, open_store
from coatcheck.errors import InvalidArgument, TaskNotFound
from coatcheck.proxy.activity.diary import OWNER, TOOL, Diary
from coatcheck.proxy.activity.events import Event, Events, EventType
from coatcheck.store import EVERYONE, Query, Store
from coatcheck.task import Task
from tests.clock import Clock
from tests.proxy.activity.stores import FaultyStore

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
BOUND = 20


def add(events: Events, *numbers: int) -> list[Event]:
    return [events.add(EventType.NOTIFICATION, "s", n=n) for n in numbers]


def numbers(events: Sequence[Event]) -> list[int]:
    return [event.data["n"] for event in events]


async def rows(store: Store) -> Sequence[Task]:
    return await store.list(Query(owner=EVERYONE))


async def test_an_empty_diary_holds_nothing_and_writes_nothing(store: Store) -> None:
    diary = Diary(store, "session")
    assert await diary.read() == ([], None)
    await diary.settle()
    await diary.close()
    assert await rows(store) == []


async def test_p_055_another_instance_reads_what_the_first_wrote_as_it_was(store: Store) -> None:
    diary = Diary(store, "session")
    events = Events(diary=diary)
    kept = [events.add(EventType.TASK_FAILED, "s", task_id="t", error="caf\u00e9"), events.add(EventType.TIMER_EXPIRED)]
    await diary.settle()
    assert await Diary(store, "session").read() == (kept, None)


async def test_p_068_after_a_clean_stop_delivery_is_exactly_once(store: Store) -> None:
    events = Events(diary=Diary(store, "session"))
    add(events, 0, 1)
    taken = events.take()
    add(events, 2)
    await events.close()

    again = await Events.restored(Diary(store, "session"))
    assert again.last_delivered_id == taken[-1].id
    assert again.has_undelivered
    assert numbers(again.take()) == [2]
    assert numbers(again.since(None)) == [0, 1, 2], "for replay all of them are held"
    await again.close()
    assert (await Events.restored(Diary(store, "session"))).take() == []


async def test_p_068_after_a_crash_delivery_is_at_least_once(store: Store) -> None:
    diary = Diary(store, "session")
    events = Events(diary=diary)
    add(events, 0, 1)
    await diary.settle()
    crashed = await Events.restored(Diary(store, "session"))  # which finds what was written before this:
    events.take()  # and it dies
    assert numbers(crashed.take()) == [0, 1]
    await diary.settle()
    await crashed.close()


async def test_events_go_on_above_those_of_the_process_before_whatever_the_clock_says(store: Store) -> None:
    clock = Clock()
    events = Events(diary=Diary(store, "session"), clock=clock)
    (earlier,) = add(events, 0)
    events.take()
    await events.close()
    clock.turn(hours=-1)
    again = await Events.restored(Diary(store, "session"), clock=clock)
    (later,) = add(again, 1)
    assert later.id > earlier.id
    await again.close()
    assert numbers((await Events.restored(Diary(store, "session"))).take()) == [1]


async def test_diaries_of_different_names_have_nothing_in_common(store: Store) -> None:
    ours, theirs = Events(diary=Diary(store, "ours")), Events(diary=Diary(store, "theirs"))
    add(ours, 0)
    add(theirs, 1)
    await ours.close()
    await theirs.close()
    assert numbers((await Diary(store, "ours").read())[0]) == [0]


async def test_a_diary_is_no_callers_and_no_workers_business(store: Store) -> None:
    events = Events(diary=Diary(store, "session"))
    add(events, 0)
    await events.close()
    (row,) = await rows(store)
    engine = Engine(store)
    assert (row.owner, row.call.tool, row.lease, row.status) == (OWNER, TOOL, None, "completed")
    for owner in (None, "ann"):
        assert await engine.list(owner) == []
        with pytest.raises(TaskNotFound):
            await engine.get(row.id, owner)
    assert await store.waiting([TOOL], limit=10, timeout=0) == []


async def test_the_sweep_leaves_a_diary_alone_until_it_has_expired(store: Store) -> None:
    clock = Clock()
    engine = Engine(store, clock=clock)
    diary = Diary(store, "session", lifetime=timedelta(hours=2), clock=clock)
    events = Events(diary=diary, clock=clock)
    for n in range(3):
        add(events, n)
        await diary.settle()
        clock.turn(minutes=119)
        await engine.sweep()
    assert numbers((await diary.read())[0]) == [0, 1, 2], "every write moves the end forward"
    clock.turn(minutes=2)
    await engine.sweep()
    assert await rows(store) == []
    assert await diary.read() == ([], None)
    add(events, 3)
    await diary.settle()
    assert numbers((await diary.read())[0]) == [3], "a session that goes on gets a new one"


async def test_what_has_expired_is_gone_whether_it_was_swept_or_not(store: Store) -> None:
    clock = Clock()
    diary = Diary(store, "session", clock=clock)
    events = Events(diary=diary, clock=clock)
    add(events, 0)
    await diary.settle()
    clock.turn(hours=24)
    add(events, 1)
    await diary.settle()
    assert numbers((await Diary(store, "session", clock=clock).read())[0]) == [1]


async def test_a_burst_is_one_write_and_silence_is_none() -> None:
    store = FaultyStore()
    diary = Diary(store, "session")
    events = Events(diary=diary)
    add(events, *range(100))
    events.take()
    await diary.settle()
    assert store.writes == 2, "the page, and all that is on it"
    add(events, *range(100))
    events.take()
    await diary.settle()
    assert store.writes == 3
    before = (store.writes, store.reads)
    await diary.settle()
    await diary.close()
    assert (store.writes, store.reads) == before


async def test_what_comes_up_during_a_write_is_written_after_it(store: Store) -> None:
    diary = Diary(store, "session")
    events = Events(diary=diary)
    add(events, 0)
    await asyncio.sleep(0)
    add(events, 1)
    await diary.settle()
    assert numbers((await Diary(store, "session").read())[0]) == [0, 1]


async def test_those_who_write_at_once_lose_nothing(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Every race for the row is lost by one of them, also those for a new page."""
    diaries = [Diary(store, "session", bound=BOUND) for _ in range(3)]
    sessions = [Events(diary=diary, bound=BOUND) for diary in diaries]
    added: list[str] = []
    for n in range(3 * BOUND):
        added += [event.id for events in sessions for event in add(events, n)]
        await asyncio.gather(*(diary.settle() for diary in diaries))
    kept, _ = await Diary(store, "session", bound=BOUND).read()
    assert [event.id for event in kept] == sorted(added)[-BOUND:]
    assert "cannot be written" not in caplog.text, "to lose a race is no failure"


async def test_of_two_cursors_the_later_one_counts(store: Store) -> None:
    first, second = Diary(store, "session"), Diary(store, "session")
    early, late = add(Events(), 0, 1)
    second.delivered(late.id)
    await second.settle()
    first.delivered(early.id)
    await first.settle()
    assert (await first.read())[1] == late.id


async def test_p_077_a_diary_does_not_grow_and_keeps_all_that_is_held(store: Store) -> None:
    diary = Diary(store, "session", bound=BOUND)
    events = Events(diary=diary, bound=BOUND)
    for n in range(7 * BOUND):
        add(events, n)
        if n % 3 == 0:
            events.take()
        if n % 4 == 0:
            await diary.settle()
            again = await Events.restored(Diary(store, "session", bound=BOUND), bound=BOUND)
            assert numbers(again.since(None))[-len(events.since(None)) :] == numbers(events.since(None))
            assert again.last_delivered_id == events.last_delivered_id
    await diary.close()
    lengths = [len(await store.journal(row.id)) for row in await rows(store)]
    assert len(lengths) == 2
    assert sum(lengths) <= 2 * BOUND + 4


async def test_the_cursor_is_carried_from_page_to_page(store: Store) -> None:
    events = Events(diary=Diary(store, "session", bound=BOUND), bound=BOUND)
    add(events, 0)
    events.take()
    await events.close()
    diary = Diary(store, "session", bound=BOUND)
    again = await Events.restored(diary, bound=BOUND)
    for n in range(4 * BOUND):
        add(again, n)
        await diary.settle()
    assert (await diary.read())[1] == events.last_delivered_id


async def test_a_crash_at_any_write_loses_nothing_that_was_written() -> None:
    """A page is torn out only when none of what is on it is held any more."""
    for crash_at in range(1, 40):
        store = FaultyStore()
        store.writes_left = crash_at
        diary, written = Diary(store, "session", bound=BOUND), 0
        events = Events(diary=diary, bound=BOUND)
        for n in range(8 * BOUND):
            add(events, n)
            if n % 5 == 4:
                await diary.settle()
                if store.writes_left == 0:
                    break
                written = n + 1
        kept, _ = await Diary(store, "session", bound=BOUND).read()
        assert set(numbers(kept)) >= set(range(max(0, written - BOUND + 5), written)), crash_at


async def test_a_store_that_fails_is_logged_once_and_caught_up_with(caplog: pytest.LogCaptureFixture) -> None:
    store = FaultyStore()
    diary = Diary(store, "session")
    events = Events(diary=diary)
    store.writes_left = 0
    for n in range(3):
        add(events, n)
        await diary.settle()
    assert [record.getMessage() for record in caplog.records] == [
        "Events cannot be written, so a restart would lose them: The disk is full; make room."
    ]
    assert numbers(events.take()) == [0, 1, 2], "who adds and who takes is not concerned"
    store.writes_left = 10
    await diary.close()
    kept, delivered = await Diary(store, "session").read()
    assert (numbers(kept), delivered) == ([0, 1, 2], events.last_delivered_id)


async def test_a_store_that_fails_for_long_costs_no_more_memory_than_events_do() -> None:
    store = FaultyStore()
    store.writes_left = 0
    diary = Diary(store, "session", bound=BOUND)
    events = Events(diary=diary, bound=BOUND)
    add(events, *range(5 * BOUND))
    await diary.settle()
    assert len(vars(diary)["_unwritten"]) == BOUND
    store.writes_left = 10
    await diary.close()
    assert numbers((await diary.read())[0]) == list(range(4 * BOUND, 5 * BOUND))


async def test_what_has_no_json_form_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    diary = Diary(FaultyStore(), "session")
    events = Events(diary=diary)
    events.add(EventType.NOTIFICATION, n=object())
    add(events, 1)
    await diary.settle()
    assert numbers((await diary.read())[0]) == [1]
    assert "not written down" in caplog.text


async def test_a_diary_can_be_erased(store: Store) -> None:
    diary = Diary(store, "session", bound=BOUND)
    events = Events(diary=diary, bound=BOUND)
    for n in range(2 * BOUND):
        add(events, n)
        await diary.settle()
    await diary.erase()
    await events.close()
    assert await rows(store) == []


def test_a_diary_that_would_expire_at_once_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="more than no time"):
        Diary(FaultyStore(), "session", lifetime=timedelta())


WRITER = """
import asyncio, os, sys
from coatcheck import open_store
from coatcheck.proxy.activity.diary import Diary
from coatcheck.proxy.activity.events import Events, EventType

async def main():
    async with open_store(sys.argv[1]) as store:
        diary = Diary(store, "session")
        events = Events(diary=diary)
        events.add(EventType.TASK_CREATED, "s", n=0)
        events.take()
        await diary.settle()
        events.add(EventType.TASK_COMPLETED, "s", n=1)
        await diary.settle()
        events.take()
        os._exit(9)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_p_055_a_process_that_dies_leaves_its_events_to_the_next(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    with anyio.fail_after(60):
        child = await anyio.run_process([sys.executable, "-c", WRITER, url], cwd=ROOT, check=False)
    assert child.returncode == 9, child.stderr
    async with open_store(url) as store:
        events = await Events.restored(Diary(store, "session"))
        assert numbers(events.take()) == [1]
        assert numbers(events.since(None)) == [0, 1]
        await events.close()
