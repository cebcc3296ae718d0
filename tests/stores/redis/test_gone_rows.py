"""Rows that are gone without us: they expired, or were evicted. The others do not suffer."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from coatcheck import Engine, KeyRefused, QuotaExceeded, TaskNotFound, new_key, open_store
from coatcheck.lifecycle import Cancelled, Recorded, advance
from coatcheck.store import EVERYONE, Query
from coatcheck.stores.redis import store as store_module
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.stores.redis.helpers import ask, key
from tests.stores.served.helpers import CLAIMED, DONE, ids, keep, refusal, stores, until, waiting

pytestmark = pytest.mark.anyio

DAY = 86_400_000
MANY_LOOKS = 25_000
"""Who waits for work looks for it every 5 seconds at least."""


def milliseconds_left(url: str, name: str) -> int:
    return ask(url, "PTTL", key(url, name))


async def test_what_has_ended_goes_away_by_itself_a_day_after_its_time(url: str) -> None:
    async with open_store(url) as store:
        task = a_task(idempotency_key="k")
        await keep(store, task, CLAIMED, Recorded(1, (an_entry(),)))
        idempotency = ask(url, "KEYS", key(url, "k:*"))[0].decode().split(":", 1)[1]
        names = ("t:a", "j:a", idempotency)
        assert [milliseconds_left(url, name) for name in names] == [-1, -1, -1], "unfinished work is kept for ever"
        kept = await store.get("a")
        assert kept
        assert await store.replace(advance(kept, DONE, NOW))
        for name in names:
            assert DAY < milliseconds_left(url, name) <= DAY + 3_600_000
        ended = await store.get("a")
        assert ended
        assert await store.replace(replace(kept, version=ended.version + 1))
        assert [milliseconds_left(url, name) for name in names] == [-1, -1, -1], "it was taken up again"
        endless = replace(a_task("endless"), expires_at=None)
        await keep(store, endless, CLAIMED, DONE)
        assert milliseconds_left(url, "t:endless") == -1


async def test_ids_of_rows_that_are_gone_are_passed_over_and_forgotten(url: str) -> None:
    async with open_store(url) as store:
        for number in range(6):
            await store.insert(a_task(f"waiting{number}", age=number))
            await keep(store, a_task(f"held{number}", age=number), CLAIMED)
        for number in (0, 2, 3):
            ask(url, "DEL", key(url, f"t:waiting{number}"), key(url, f"t:held{number}"))
        assert ids(await store.waiting(("slow",), limit=2, timeout=0)) == ["waiting5", "waiting4"]
        assert ids(await store.waiting(("slow",), limit=9, timeout=0)) == ["waiting5", "waiting4", "waiting1"]
        assert ids(await store.list(Query(owner=EVERYONE, is_held=True, limit=2))) == ["held1", "held4"]
        assert ids(await store.list(Query(owner="ann", limit=3))) == ["waiting1", "held1", "waiting4"]
        assert len(await store.list(Query(owner=EVERYONE))) == 6
        assert len(await store.overdue(NOW + timedelta(days=1), limit=4)) == 4
        assert len(await store.overdue(NOW + timedelta(days=1), limit=9)) == 6
        sizes = {name: ask(url, "ZCARD", key(url, name)) for name in ("all", "o:+ann", "held", "due", "w:slow")}
        assert sizes == {"all": 6, "o:+ann": 6, "held": 3, "due": 6, "w:slow": 3}


async def test_a_quota_does_not_count_what_was_evicted(url: str) -> None:
    async with open_store(url) as store:
        for number in range(3):
            await store.insert(a_task(str(number)), quota=3)
        with pytest.raises(QuotaExceeded):
            await store.insert(a_task("more"), quota=3)
        ask(url, "DEL", key(url, "t:1"))
        assert await store.insert(a_task("more"), quota=3) == a_task("more")


async def test_an_idempotency_key_of_a_row_that_is_gone_is_free(url: str) -> None:
    async with open_store(url) as store:
        await store.insert(a_task(idempotency_key="k"))
        ask(url, "DEL", key(url, "t:a"))
        other = a_task("b", idempotency_key="k")
        assert await store.insert(other) == other
        assert await store.insert(a_task("c", idempotency_key="k")) == other


async def test_a_journal_without_its_row_is_no_journal(url: str) -> None:
    async with open_store(url) as store:
        await keep(store, a_task(), CLAIMED, Recorded(1, (an_entry(),)))
        ask(url, "DEL", key(url, "t:a"))
        assert await store.journal("a") == []


async def test_which_key_sealed_what_is_forgotten_with_what_is_gone(url: str) -> None:
    async with open_store(url, key=new_key()) as store:
        for name in ("gone", "kept"):
            await store.insert(a_task(name))
        ask(url, "DEL", key(url, "t:gone"))
        assert ids(await store.overdue(NOW + timedelta(days=1), limit=9)) == ["kept"]
        [sealed] = ask(url, "KEYS", key(url, "s:*"))
        assert ask(url, "SMEMBERS", sealed) == {b"kept"}


async def test_who_waits_for_work_is_noted_again_and_again_and_who_died_is_forgotten(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert milliseconds_left(url, "i:slow") == -2
    monkeypatch.setattr(store_module, "_WORK_SAFETY_SECONDS", 0.05)
    async with stores(url, 1) as (store,), waiting(store):
        await until(lambda: milliseconds_left(url, "i:slow") > MANY_LOOKS)
        ask(url, "PEXPIRE", key(url, "i:slow"), 10_000)
        await until(lambda: milliseconds_left(url, "i:slow") > MANY_LOOKS)
        ask(url, "DEL", key(url, "i:slow"))
        await until(lambda: ask(url, "SCARD", key(url, "i:slow")))
    assert 0 < milliseconds_left(url, "i:slow") <= 60_000


async def test_a_page_goes_on_where_the_last_one_ended_though_that_task_is_gone(url: str) -> None:
    async with open_store(url) as store:
        tasks = [a_task(name) for name in "edcba"]
        for task in tasks:
            await store.insert(task)
        page = await store.list(Query(owner="ann", limit=2))
        assert ids(page) == ["e", "d"]
        assert await store.delete(page[-1])
        assert ids(await store.list(Query(owner="ann", after=page[-1].position, limit=2))) == ["c", "b"]
        beyond = (NOW + timedelta(days=1), "a")
        assert ids(await store.list(Query(owner="ann", after=beyond))) == ["e", "c", "b", "a"]
        assert len(await store.list(Query(owner="ann"))) == 4


async def test_a_key_is_no_longer_missed_once_what_was_sealed_with_it_is_gone(url: str) -> None:
    old, new = new_key(), new_key()
    async with open_store(url, key=old) as store:
        await store.insert(a_task())
    async with open_store(url, key=f"{new},{old}") as store:
        assert await store.replace(advance(a_task(), CLAIMED, NOW))
    await refusal(url, KeyRefused, new)  # parts of its journal could be older than the rest
    ask(url, "DEL", key(url, "t:a"))
    async with open_store(url, key=new) as store:
        await store.insert(a_task("b"))
    async with open_store(url, key=new) as store:
        assert await store.get("b") == a_task("b")


async def test_of_rows_that_an_older_version_wrote_the_engine_says_whether_they_have_expired(url: str) -> None:
    async with open_store(url) as store:
        held = await keep(store, a_task(), CLAIMED)
        mark = ask(url, "HGET", key(url, "t:a"), "m").decode()
        before, _, after = mark.partition("@")
        ask(url, "HSET", key(url, "t:a"), "m", before + after.split(" ", 1)[1])  # it did not say when
        late = NOW + timedelta(days=1)
        assert await store.get("a", owner="ann", alive_at=late) == held
        with pytest.raises(TaskNotFound):
            await Engine(store, clock=lambda: late).get("a", "ann")
        released = replace(advance(held, Cancelled(), NOW), version=held.version + 1)
        assert await store.replace(released)
        assert await store.get("a", owner="ann", alive_at=late) is None
        assert await store.get("a", owner="ann", alive_at=NOW) == released


async def test_an_older_version_can_go_on_with_what_this_one_wrote(url: str) -> None:
    """What it does not know stays behind among the tokens, where it says nothing."""
    async with open_store(url) as store:
        held = await keep(store, a_task(), CLAIMED)
        mark = ask(url, "HGET", key(url, "t:a"), "m").decode()
        version, state, due, *tokens = mark.split(" ")
        older = f"{int(version) + 1} {state} {due} 9older.1;{' '.join(tokens)}"
        ask(url, "HSET", key(url, "t:a"), "m", older)
        newer = advance(replace(held, version=held.version + 1), DONE, NOW)
        assert await store.get("a", owner="ann", alive_at=NOW) == held
        assert await store.replace(newer)
        assert await store.get("a", owner="ann", alive_at=NOW) == newer
