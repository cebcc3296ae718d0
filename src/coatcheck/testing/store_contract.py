"""What every store must do, as plain async checks, each on an empty store.

pytest runs them against each of ours; run `CHECKS` against yours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import msgspec

from coatcheck.errors import InvalidArgument, QuotaExceeded
from coatcheck.lifecycle import (
    Cancelled,
    Claimed,
    Completed,
    Event,
    Failed,
    InputProvided,
    InputRequested,
    Noted,
    Recorded,
    Released,
    Renewed,
    advance,
)
from coatcheck.payload import Payload, encode
from coatcheck.store import EVERYONE, Query, Store
from coatcheck.task import Failure, InputRequest, Position, Progress, Task, ToolCall
from coatcheck.testing.builders import NOW, a_task, an_entry

Check = Callable[[Store], Awaitable[None]]
CHECKS: list[Check] = []

_PATIENCE = 5
"""Seconds to wait for what should come at once."""
_LATER = NOW + timedelta(seconds=30)
_QUESTION = InputRequest(method="elicitation/create", params=encode({"message": "Sure?"}), answer_schema=encode({}))


def check(function: Check) -> Check:
    CHECKS.append(function)
    return function


def _after(task: Task, *events: Event) -> Task:
    for event in events:
        task = advance(task, event, NOW)
    return task


async def _keep(store: Store, task: Task, *events: Event) -> Task:
    """Bring a task into the store and through events, as the engine would."""
    task = await store.insert(task)
    for event in events:
        task = advance(task, event, NOW)
        assert await store.replace(task, event.entries if isinstance(event, Recorded) else ())
    return task


def _ids(tasks: Sequence[Task]) -> list[str]:
    return [task.id for task in tasks]


# Keeping rows


@check
async def an_inserted_task_is_returned_unchanged(store: Store) -> None:
    assert await store.insert(a_task()) == a_task()
    assert await store.get("a") == a_task()
    assert await store.get("b") is None


@check
async def every_field_survives(store: Store) -> None:
    asked = InputRequested(1, {"k": _QUESTION, "l": _QUESTION}, timedelta(days=7))
    rich = a_task("rich", None, resumable=True, idempotency_key="key")
    identity = {"sub": "ann", "big": 2**70}
    call = msgspec.structs.replace(rich.call, meta=encode({"m": [None, 1.5]}), identity=encode(identity))
    rich = msgspec.structs.replace(rich, call=call)
    noted = Noted(1, "half \u2713", Progress(done=1, total=2.5))
    rich = await _keep(store, rich, Claimed("w", _LATER), noted, asked, InputProvided({"k": encode({"a": 1})}))
    done = await _keep(store, a_task("done"), Claimed("w", _LATER), Completed(1, Payload(b'{"x": [1, 2]}'), True))
    failure = Failure(message="no", code=-32000, data=encode([1]))
    failed = await _keep(store, a_task("failed"), Claimed("w", _LATER), Failed(1, failure))
    for task in (rich, done, failed):
        assert await store.get(task.id) == task
    kept = await store.get("done")
    assert kept is not None
    assert kept.result == Payload(b'{"x": [1, 2]}'), "results are kept to the byte"


@check
async def an_id_is_taken_once(store: Store) -> None:
    await store.insert(a_task())
    try:
        await store.insert(a_task(owner="bob"))
    except InvalidArgument:
        pass
    else:
        raise AssertionError("a second task under the same id was accepted")
    assert await store.get("a") == a_task()


@check
async def replace_writes_only_on_the_next_version(store: Store) -> None:
    task = await store.insert(a_task())
    newer = advance(task, Claimed("w", NOW), NOW)
    assert await store.replace(newer)
    assert not await store.replace(newer)
    assert not await store.replace(msgspec.structs.replace(newer, version=9))
    assert not await store.replace(msgspec.structs.replace(newer, id="unknown"))
    assert await store.get("a") == newer


@check
async def of_many_racing_writers_one_wins(store: Store) -> None:
    task = await store.insert(a_task())
    claims = [advance(task, Claimed(f"w{i}", NOW), NOW) for i in range(20)]
    won = await asyncio.gather(*(store.replace(claim) for claim in claims))
    assert won.count(True) == 1
    assert await store.get("a") == claims[won.index(True)]


@check
async def delete_spares_a_task_that_moved_on(store: Store) -> None:
    task = await store.insert(a_task())
    newer = advance(task, Claimed("w", NOW), NOW)
    await store.replace(newer)
    assert not await store.delete(task)
    assert await store.delete(newer)
    assert not await store.delete(newer)
    assert await store.get("a") is None


# Quota and idempotency


@check
async def the_quota_counts_the_owners_unfinished_tasks(store: Store) -> None:
    await _keep(store, a_task("done"), Claimed("w", _LATER), Completed(1, encode({})))
    await _keep(store, a_task("held"), Claimed("w", _LATER))
    await store.insert(a_task("foreign", "bob"), quota=2)
    await store.insert(a_task("nobody's", None), quota=2)
    await store.insert(a_task("second"), quota=2)
    try:
        await store.insert(a_task("third"), quota=2)
    except QuotaExceeded as refusal:
        assert refusal.quota == 2
    else:
        raise AssertionError("a third unfinished task was accepted")
    assert await store.get("third") is None


@check
async def of_many_racing_inserts_only_the_quota_gets_in(store: Store) -> None:
    inserts = (store.insert(a_task(f"t{i}"), quota=3) for i in range(20))
    outcomes = await asyncio.gather(*inserts, return_exceptions=True)
    assert sum(isinstance(outcome, Task) for outcome in outcomes) == 3
    assert sum(isinstance(outcome, QuotaExceeded) for outcome in outcomes) == 17


@check
async def an_idempotency_key_returns_the_task_kept_under_it(store: Store) -> None:
    first = await store.insert(a_task("a", idempotency_key="k"))
    assert await store.insert(a_task("b", idempotency_key="k"), quota=1) == first
    for task in (a_task("c", "bob", idempotency_key="k"), a_task("d", None, idempotency_key="k"), a_task("e")):
        assert await store.insert(task) == task
    assert await store.insert(a_task("f", None, idempotency_key="k")) == a_task("d", None, idempotency_key="k")
    assert await store.get("b") is None
    assert await store.delete(first)
    assert await store.insert(a_task("b", idempotency_key="k")) == a_task("b", idempotency_key="k")


@check
async def of_many_racing_inserts_under_one_key_one_is_kept(store: Store) -> None:
    kept = await asyncio.gather(*(store.insert(a_task(f"t{i}", idempotency_key="k")) for i in range(20)))
    assert len({task.id for task in kept}) == 1


# The journal


@check
async def the_journal_keeps_its_order_and_goes_with_its_task(store: Store) -> None:
    first, second, third = an_entry(1), an_entry({"x": "y"}, "step:b#1"), an_entry("z", "", "output")
    task = await _keep(store, a_task(), Claimed("w", _LATER), Recorded(1, (first, second)), Recorded(1, (third,)))
    assert task.entries == 3
    assert list(await store.journal("a")) == [first, second, third]
    assert list(await store.journal("a", after=1, limit=1)) == [second]
    assert list(await store.journal("b")) == []
    assert await store.delete(task)
    assert list(await store.journal("a")) == []


@check
async def a_refused_write_leaves_no_entry(store: Store) -> None:
    task = await _keep(store, a_task(), Claimed("w", _LATER))
    late = advance(task, Recorded(1, (an_entry(),)), NOW)
    assert await store.replace(advance(task, Cancelled(), NOW))
    assert not await store.replace(late, (an_entry(),))
    assert list(await store.journal("a")) == []


# Listings


@check
async def list_shows_one_owner_newest_first_page_by_page(store: Store) -> None:
    mine = [a_task("d", age=1), a_task("a", age=2), a_task("c", age=3), a_task("b", age=3), a_task("e", age=4)]
    for task in (*mine, a_task("x", "bob"), a_task("y", None)):
        await store.insert(task)
    await store.replace(_after(mine[1], Cancelled()))
    seen: list[str] = []
    after: Position | None = None
    while page := await store.list(Query(owner="ann", after=after, limit=2)):
        seen += _ids(page)
        after = page[-1].position
    assert seen == ["d", "a", "c", "b", "e"]
    assert _ids(await store.list(Query(owner=None))) == ["y"]
    assert len(await store.list(Query(owner=EVERYONE))) == 7


@check
async def list_can_show_what_workers_hold(store: Store) -> None:
    await store.insert(a_task("waiting"))
    await _keep(store, a_task("held", "bob"), Claimed("w", _LATER))
    await _keep(store, a_task("done"), Claimed("w", _LATER), Completed(1, encode({})))
    assert _ids(await store.list(Query(owner=EVERYONE, is_held=True))) == ["held"]
    assert _ids(await store.list(Query(owner="ann", is_held=True))) == []


@check
async def waiting_lists_unheld_work_oldest_first(store: Store) -> None:
    for task in (a_task("young", age=1), a_task("old", age=5), a_task("other", age=7, tool="other")):
        await store.insert(task)
    await _keep(store, a_task("held", age=9), Claimed("w", _LATER))
    await _keep(store, a_task("ended", age=9), Cancelled())
    question = InputRequested(1, {"k": _QUESTION}, timedelta(days=1))
    await _keep(store, a_task("parked", age=9, resumable=True), Claimed("w", _LATER), question, Released(1))
    await _keep(store, a_task("again", age=3, resumable=True), Claimed("w", _LATER), Released(1))
    assert _ids(await store.waiting({"slow"}, limit=10, timeout=0)) == ["old", "again", "young"]
    assert _ids(await store.waiting({"slow", "other"}, limit=2, timeout=0)) == ["other", "old"]
    assert _ids(await store.waiting({"unknown"}, limit=10, timeout=0)) == []


@check
async def waiting_tells_versions_of_a_tool_apart_and_what_is_left_for_others(store: Store) -> None:
    for task in (a_task("old", age=5), a_task("other", age=7, tool="other"), a_task("held", age=9, tool="third")):
        await store.insert(task)
    call = ToolCall(tool="slow", version="2")
    await store.insert(msgspec.structs.replace(a_task("new", age=6), call=call))
    await store.replace(_after(a_task("held", age=9, tool="third"), Claimed("w", _LATER)))
    assert _ids(await store.waiting({"slow"}, limit=10, timeout=0)) == ["old"]
    assert _ids(await store.waiting({"slow@2"}, limit=10, timeout=0)) == ["new"]
    assert _ids(await store.waiting({"slow"}, limit=10, timeout=0, is_for_others=True)) == ["other", "new"]
    assert _ids(await store.waiting((), limit=1, timeout=0, is_for_others=True)) == ["other"]
    assert _ids(await store.waiting({"slow", "slow@2", "other"}, limit=10, timeout=0, is_for_others=True)) == []


@check
async def overdue_lists_late_leases_and_lifetimes(store: Store) -> None:
    await _keep(store, a_task("held"), Claimed("w", _LATER))
    await store.insert(a_task("fresh"))
    endless = msgspec.structs.replace(a_task("endless"), expires_at=None)
    await store.insert(endless)
    assert _ids(await store.overdue(NOW, limit=10)) == []
    assert _ids(await store.overdue(_LATER, limit=10)) == ["held"]
    assert set(_ids(await store.overdue(NOW + timedelta(hours=2), limit=10))) == {"held", "fresh"}
    assert len(await store.overdue(NOW + timedelta(hours=2), limit=1)) == 1


# Waiting


@check
async def waiting_wakes_when_work_arrives(store: Store) -> None:
    assert _ids(await store.waiting({"slow"}, limit=10, timeout=0.01)) == []
    found = asyncio.ensure_future(store.waiting({"slow"}, limit=10, timeout=60))
    await asyncio.sleep(0)
    await store.insert(a_task("other", tool="other"))
    await store.insert(a_task())
    assert _ids(await asyncio.wait_for(found, _PATIENCE)) == ["a"]


@check
async def get_waits_for_a_newer_version_or_gives_up(store: Store) -> None:
    first = await store.insert(a_task())
    second = advance(first, Claimed("w", NOW), NOW)
    assert await store.get("a", newer_than=first.version, timeout=0.01) == first
    woken = asyncio.ensure_future(store.get("a", newer_than=first.version, timeout=60))
    await asyncio.sleep(0)
    await store.replace(second)
    assert await asyncio.wait_for(woken, _PATIENCE) == second
    assert await asyncio.wait_for(store.get("a", newer_than=first.version, timeout=60), _PATIENCE) == second


@check
async def get_leaves_out_what_is_of_another_owner(store: Store) -> None:
    mine, nobodys = await store.insert(a_task("mine")), await store.insert(a_task("nobody's", None))
    done = await _keep(store, a_task("done"), Claimed("w", _LATER), Completed(1, encode({"x": "y" * 10_000})))
    for task, others in ((mine, ("bob", None, "")), (nobodys, ("ann", "", "-")), (done, ("bob", None, "+ann"))):
        assert await store.get(task.id, owner=task.owner) == task
        assert await store.get(task.id, owner=EVERYONE) == task
        for other in others:
            assert await store.get(task.id, owner=other) is None
    both = await asyncio.gather(*(store.get("mine", owner=owner) for owner in ("ann", "bob", EVERYONE, None)))
    assert both == [mine, None, mine, None], "also of those who ask at once"


@check
async def get_leaves_out_what_has_expired(store: Store) -> None:
    end = a_task().expires_at
    assert end is not None
    before, after = end - timedelta(microseconds=1), end + timedelta(days=1)
    beyond, question = end + timedelta(days=9), InputRequested(1, {"k": _QUESTION}, timedelta(days=1))
    tasks = [
        await store.insert(a_task("waiting")),
        await _keep(store, a_task("held"), Claimed("w", _LATER)),
        await _keep(store, a_task("held for long"), Claimed("w", beyond)),
        await _keep(store, a_task("late"), Claimed("w", NOW)),
        await _keep(store, a_task("noted"), Claimed("w", _LATER), Noted(1, "half"), Renewed(1, beyond)),
        await _keep(store, a_task("released", resumable=True), Claimed("w", _LATER), Released(1)),
        await _keep(store, a_task("done"), Claimed("w", _LATER), Completed(1, encode({}))),
    ]
    asking = await _keep(store, a_task("asking"), Claimed("w", _LATER), question)
    for task in tasks:
        assert task.expires_at == end
        assert await store.get(task.id, owner="ann", alive_at=before) == task
        assert await store.get(task.id, owner="ann", alive_at=end) is None
        assert await store.get(task.id, alive_at=after) is None
        assert await store.get(task.id, owner="ann") == task
    assert await store.get("asking", alive_at=end) == asking, "its lifetime stands still"
    endless = msgspec.structs.replace(a_task("endless"), expires_at=None)
    for task in (
        await store.insert(endless),
        await _keep(store, msgspec.structs.replace(endless, id="endless too"), Claimed("w", NOW)),
    ):
        assert await store.get(task.id, owner="ann", alive_at=beyond) == task


@check
async def get_waits_for_nothing_it_leaves_out(store: Store) -> None:
    task = await store.insert(a_task())
    end = task.expires_at
    for owner, alive_at in (("bob", None), (None, NOW), ("ann", end), (EVERYONE, end)):
        waiting = store.get("a", owner=owner, alive_at=alive_at, newer_than=task.version, timeout=60)
        assert await asyncio.wait_for(waiting, _PATIENCE) is None
    mine = store.get("a", owner="ann", alive_at=NOW, newer_than=task.version, timeout=60)
    woken = asyncio.ensure_future(mine)
    await asyncio.sleep(0)
    newer = advance(task, Claimed("w", _LATER), NOW)
    await store.replace(newer)
    assert await asyncio.wait_for(woken, _PATIENCE) == newer


@check
async def get_notices_that_a_task_is_gone(store: Store) -> None:
    task = await store.insert(a_task())
    woken = asyncio.ensure_future(store.get("a", newer_than=task.version, timeout=60))
    await asyncio.sleep(0)
    await store.delete(task)
    assert await asyncio.wait_for(woken, _PATIENCE) is None


@check
async def all_who_wait_for_a_task_are_woken(store: Store) -> None:
    task = await store.insert(a_task())
    waits = [asyncio.ensure_future(store.get("a", newer_than=task.version, timeout=60)) for _ in range(50)]
    await asyncio.sleep(0)
    newer = advance(task, Cancelled(), NOW)
    await store.replace(newer)
    assert await asyncio.wait_for(asyncio.gather(*waits), _PATIENCE) == [newer] * 50
