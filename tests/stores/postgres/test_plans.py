"""Plans are kept, and may be from a time when there was little to do: they are good when there is much, too."""

import asyncio

import pytest

from coatcheck import open_store
from coatcheck.lifecycle import advance
from coatcheck.store import Query, Store
from coatcheck.task import Task
from coatcheck.testing.builders import NOW, a_task
from tests.stores.postgres.helpers import run, schema_of, session
from tests.stores.served.helpers import CLAIMED, DONE

pytestmark = pytest.mark.anyio

_MANY = 1000
_READ = "select coalesce(sum(idx_tup_read), 0)::int from pg_stat_user_indexes where schemaname = $1 and relname = $2"
_PAGE = 50


async def begin(store: Store, prefix: str) -> list[Task]:
    tasks = [advance(a_task(f"{prefix}{number}"), CLAIMED, NOW) for number in range(_MANY)]
    return list(await asyncio.gather(*map(store.insert, tasks)))


async def end(store: Store, begun: list[Task]) -> None:
    assert all(await asyncio.gather(*(store.replace(advance(task, DONE, NOW)) for task in begun)))


async def test_tasks_that_end_are_looked_up_one_by_one_though_none_was_under_way_when_the_table_was_last_analyzed(
    url: str,
) -> None:
    async with open_store(url) as store:
        await end(store, await begin(store, "first"))
        await run(url, "vacuum (truncate false, analyze) @.begun")
        begun = await begin(store, "second")
    async with session(url) as other:
        # What a connection has read is known once it has ended.
        await other.until("select count(*) = 0 from pg_stat_activity where application_name = 'coatcheck'")
        before = await other.ask(_READ, schema_of(url), "begun")
        async with open_store(url) as store:
            await end(store, begun[:20])
        await other.until(f"select ({_READ}) > $3", schema_of(url), "begun", before)
        assert await other.ask(_READ, schema_of(url), "begun") - before < _MANY / 2


async def test_a_page_of_an_owners_tasks_looks_at_no_others_whatever_is_waiting(url: str) -> None:
    async with open_store(url) as store:
        await asyncio.gather(*(store.insert(a_task(f"waiting{number}")) for number in range(_MANY)))
        await end(store, await begin(store, "done"))
    await run(url, "vacuum (truncate false, analyze) @.task")
    async with session(url) as other:
        await other.until("select count(*) = 0 from pg_stat_activity where application_name = 'coatcheck'")
        before = await other.ask(_READ, schema_of(url), "task")
        async with open_store(url) as store:
            page = await store.list(Query(owner="ann", limit=_PAGE))
        assert len(page) == _PAGE
        await other.until(f"select ({_READ}) > $3", schema_of(url), "task", before)
        assert await other.ask(_READ, schema_of(url), "task") - before < 2 * _PAGE
