"""Programs of two versions on one schema: the older goes on with what it knows while the newer adds to it."""

import asyncio
import hashlib
from datetime import timedelta

import pytest

from coatcheck import open_store
from coatcheck.errors import StoreUnavailable, StoreUnusable
from coatcheck.lifecycle import Recorded
from coatcheck.store import EVERYONE, Query, Store
from coatcheck.stores.postgres import schema
from coatcheck.stores.postgres.tables import MIGRATIONS
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.stores.postgres.helpers import ask, run, schema_of
from tests.stores.served.helpers import CLAIMED, ids, keep, refusal

RELEASED = ("e3b0c44298fc1c14", "37a7e4d457d584c2")
LATER = """
alter table @.task add column colour text not null default 'red', add column weight bigint;
alter table @.entry add column colour text not null default 'red';
create index task_colour on @.task (colour, created_at);
create function @.insert_2(tasks jsonb) returns void language sql as '';
"""
"""What a later version may do to what this one has made: add to it."""


def test_released_migrations_stay_as_they_are() -> None:
    digests = tuple(hashlib.sha256("".join(step).encode()).hexdigest()[:16] for step in MIGRATIONS)
    assert digests[: len(RELEASED)] == RELEASED, (
        "Schemas that were made with a released step are not made again, so what is changed in it never reaches them: "
        "leave it as it was, add a step with functions of the next number, and put its digest here. (What was in no "
        "release yet may be changed, and its digest with it.)"
    )


async def use(store: Store, name: str) -> None:
    """Use all there is of a store."""
    task = await keep(store, a_task(name, name, idempotency_key="k"), CLAIMED, Recorded(1, (an_entry(),)))
    assert await store.insert(a_task(f"{name}2", name, idempotency_key="k"), quota=1) == task
    assert await store.get(name) == task
    assert list(await store.journal(name)) == [an_entry()]
    assert ids(await store.list(Query(owner=name, is_held=True))) == [name]
    assert name in ids(await store.overdue(NOW + timedelta(days=1), limit=100))
    assert ids(await store.list(Query(owner=EVERYONE, limit=1))) == [name]
    assert await store.waiting(("slow",), limit=1, timeout=0.01) == []
    assert await store.delete(task)


@pytest.mark.anyio
async def test_a_program_that_runs_goes_on_while_a_later_version_adds_to_the_schema(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(url) as older:
        await use(older, "before")
        monkeypatch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, (LATER,)))
        async with open_store(url) as newer:
            assert await ask(url, "select max(number) from @.coatcheck_schema") == len(MIGRATIONS) + 1
            await use(older, "after")
            await use(newer, "newer")
            wait = asyncio.ensure_future(newer.waiting(("slow",), limit=1, timeout=60))
            task = await older.insert(a_task())
            assert await wait == [task]
            assert await ask(url, "select colour from @.task") == "red"


@pytest.mark.anyio
async def test_a_program_that_is_started_after_a_later_version_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as later:
        later.setattr(schema, "MIGRATIONS", (*MIGRATIONS, (LATER,)))
        async with open_store(url) as newer:
            await newer.insert(a_task())
    assert "newer coatcheck (schema 3, this one knows 2)" in await refusal(url, StoreUnusable)


@pytest.mark.anyio
async def test_what_was_made_before_the_first_release_is_refused_and_left_alone(url: str) -> None:
    await run(url, f"create schema {schema_of(url)}; create table @.coatcheck_schema (number integer primary key)")
    await run(url, "insert into @.coatcheck_schema values (1)")
    assert "from before the first release" in await refusal(url, StoreUnusable)
    assert await ask(url, "select max(number) from @.coatcheck_schema") == 1


@pytest.mark.anyio
async def test_a_step_that_fails_leaves_everything_as_it_was(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store(url) as store:
        await store.insert(a_task(tool="other"))
        with monkeypatch.context() as later:
            later.setattr(schema, "MIGRATIONS", (*MIGRATIONS, (LATER, "create table @.task ()")))
            await refusal(url, StoreUnavailable)
        assert await ask(url, "select max(number) from @.coatcheck_schema") == len(MIGRATIONS)
        assert await store.get("a") == a_task(tool="other")
        await use(store, "after")
