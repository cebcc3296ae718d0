"""What is asked in one turn goes together, and yet each gets an answer of its own: nobody suffers for another."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from coatcheck import open_store
from coatcheck.errors import InvalidArgument, StoreUnavailable
from coatcheck.lifecycle import Cancelled, advance
from coatcheck.store import EVERYONE, Query
from coatcheck.stores.postgres import batches
from coatcheck.task import Task
from coatcheck.testing.builders import NOW, a_task
from tests.stores.postgres.helpers import LOGGED, Session, schema_of, session, statements
from tests.stores.served.helpers import CLAIMED, DONE, FOREVER, keep, soon
from tests.stores.served.operations import OPERATIONS, Operation, prepare

pytestmark = pytest.mark.anyio


def some(count: int) -> list[Task]:
    return [a_task(str(number)) for number in range(count)]


# Few statements


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
async def test_an_operation_is_one_statement(operation: Operation, url: str) -> None:
    async with open_store(url) as store:
        await prepare(store)
        await store.insert(a_task("waiting"))
    async with open_store(f"{url}{LOGGED}") as store:
        await store.get("kept", newer_than=9, timeout=0.001)  # so that it listens already
        with statements() as asked:
            await operation(store)
    assert len(without_rings(asked, url)) == 1, asked


def without_rings(asked: Sequence[str], url: str) -> list[str]:
    """Leave out what the driver asks for itself, and what is asked after the answer: that others are told."""
    return [statement for statement in asked if f'"{schema_of(url)}".' in statement and "ring_1" not in statement]


async def test_operations_of_one_turn_go_in_few_statements(url: str) -> None:
    tasks = some(600)
    held = [advance(task, CLAIMED, NOW) for task in tasks]
    async with open_store(f"{url}{LOGGED}") as store:
        await store.delete(await keep(store, a_task("first"), CLAIMED))
        await store.get("first")
        with statements() as asked:
            assert await asyncio.gather(*map(store.insert, tasks)) == tasks
            assert await asyncio.gather(*map(store.replace, held)) == [True] * 600
            assert await asyncio.gather(*(store.get(task.id) for task in tasks)) == held
            assert await asyncio.gather(*map(store.delete, held)) == [True] * 600
    assert len(without_rings(asked, url)) <= 4 * 5


async def test_one_that_cannot_be_kept_does_not_spoil_the_others(url: str) -> None:
    tasks = some(20)
    endless = replace(a_task("endless"), version=1 << 70)
    nameless = a_task(secrets.token_urlsafe(9000))
    async with open_store(url) as store:
        outcomes = await asyncio.gather(*map(store.insert, [*tasks, endless, nameless]), return_exceptions=True)
        assert outcomes[:20] == tasks
        for refused in outcomes[20:]:
            assert isinstance(refused, InvalidArgument)
            assert " cannot keep this: " in str(refused)
        assert len(await store.list(Query(owner=EVERYONE))) == 20
        written = await asyncio.gather(
            *(store.replace(advance(task, CLAIMED, NOW)) for task in tasks),
            store.replace(endless),
            return_exceptions=True,
        )
        assert written[:20] == [True] * 20
        assert isinstance(written[20], InvalidArgument)


async def test_of_writes_that_go_together_those_that_come_too_late_are_told_so(url: str) -> None:
    async with open_store(url) as store, open_store(url) as other:
        tasks = await asyncio.gather(*map(store.insert, some(20)))
        held = [advance(task, CLAIMED, NOW) for task in tasks]
        assert await asyncio.gather(*map(other.replace, held[::5])) == [True] * 4
        news = asyncio.ensure_future(other.get("1", newer_than=1, timeout=FOREVER))
        assert await asyncio.gather(*map(store.replace, held)) == [number % 5 > 0 for number in range(20)]
        assert await soon(news) == held[1]
        assert {task.id: task for task in await store.list(Query(owner=EVERYONE, is_held=True))} == {
            task.id: task for task in held
        }
        assert await store.waiting(("slow",), limit=1, timeout=0) == []


async def test_of_two_writes_of_one_version_that_go_together_one_is_done(url: str) -> None:
    async with open_store(f"{url}{LOGGED}") as store:
        tasks = await asyncio.gather(*map(store.insert, some(20)))
        claimed, cancelled = advance(tasks[3], CLAIMED, NOW), advance(tasks[3], Cancelled(), NOW)
        others = [advance(task, CLAIMED, NOW) for task in tasks[4:]]
        with statements() as asked:
            outcomes = await asyncio.gather(*map(store.replace, [claimed, cancelled, *others]))
        assert sorted(outcomes[:2]) == [False, True]
        assert outcomes[2:] == [True] * 16
        assert any("replace_all_1" in statement for statement in asked), "nobody has to go the long way at once"


async def test_of_tasks_that_go_together_under_one_id_one_is_kept(url: str) -> None:
    tasks = [*some(5), a_task("3", "bob"), *some(8)[5:]]
    async with open_store(url) as store:
        outcomes = await asyncio.gather(*map(store.insert, tasks), return_exceptions=True)
        assert [outcome for outcome in outcomes if isinstance(outcome, Task)] == some(8)
        assert isinstance(outcomes[5], InvalidArgument)
        assert len(await store.list(Query(owner=EVERYONE))) == 8


async def test_one_store_keeps_near_to_a_large_quota(url: str) -> None:
    async with open_store(url) as store:
        inserts = (store.insert(a_task(str(number)), quota=400) for number in range(500))
        outcomes = await soon(asyncio.gather(*inserts, return_exceptions=True))
        assert 400 <= sum(isinstance(outcome, Task) for outcome in outcomes) <= 400 + 400 // 8


# Rows that somebody else holds


@asynccontextmanager
async def locked(other: Session, *task_ids: str) -> AsyncGenerator[None]:
    await other.run("begin")
    await other.ask("select count(*) from (select from @.task where id = any ($1) for update) t", task_ids)
    yield
    await other.run("commit")


async def test_a_row_that_is_locked_for_a_moment_holds_nobody_up_and_is_written_once_free(url: str) -> None:
    async with open_store(url) as store, session(url) as other:
        held = [await keep(store, task, CLAIMED) for task in some(12)]
        async with locked(other, "0", "1"):
            replaces = [asyncio.ensure_future(store.replace(advance(task, DONE, NOW))) for task in held[::2]]
            deletes = [asyncio.ensure_future(store.delete(task)) for task in held[1::2]]
            assert await soon(asyncio.gather(*replaces[1:], *deletes[1:])) == [True] * 10
            assert await soon(store.insert(a_task("new"))) == a_task("new")
            assert await soon(store.get("0")) == held[0]
            assert not replaces[0].done()
            assert not deletes[0].done()
        assert await soon(asyncio.gather(replaces[0], deletes[0])) == [True, True]
        assert await store.get("0") == advance(held[0], DONE, NOW)
        assert await store.get("1") is None


async def test_a_row_that_changes_while_it_is_locked_is_not_written(url: str) -> None:
    async with open_store(url) as store, session(url) as other:
        held = await keep(store, a_task(), CLAIMED)
        async with locked(other, "a"):
            writes = [store.replace(advance(held, DONE, NOW)), store.delete(held)]
            asked = [asyncio.ensure_future(write) for write in writes]
            assert await soon(store.get("a")) == held
            await other.run("update @.task set version = 9 where id = 'a'")
        assert await soon(asyncio.gather(*asked)) == [False, False]


async def test_a_claim_does_not_wait_for_somebody_elses(url: str) -> None:
    async with open_store(url) as store, session(url) as other:
        await store.insert(a_task())
        async with locked(other, "a"):
            assert await soon(store.replace(advance(a_task(), CLAIMED, NOW))) is False


async def test_a_row_that_stays_locked_is_an_error_that_says_what_to_do(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "PATIENCE", 0.6)
    async with open_store(url) as store, session(url) as other:
        held = await keep(store, a_task(), CLAIMED)
        async with locked(other, "a"):
            for write in (store.replace(advance(held, DONE, NOW)), store.delete(held)):
                with pytest.raises(StoreUnavailable, match="kept a row locked for 1 s; end the transaction that holds"):
                    await soon(write)
        monkeypatch.undo()
        assert await store.replace(advance(held, DONE, NOW))
