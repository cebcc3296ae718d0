"""Encryption at rest: what is hidden, from whom, and that a key is never guessed at or worked around."""

import base64
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from coatcheck import KeyRefused, Task, new_key, open_store
from coatcheck.lifecycle import (
    Claimed,
    Completed,
    Failed,
    InputProvided,
    InputRequested,
    Noted,
    Recorded,
    advance,
)
from coatcheck.payload import encode
from coatcheck.store import EVERYONE, Query, Store
from coatcheck.task import Failure, InputRequest, ToolCall
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.stores.files import contents, log, sql, url
from tests.stores.served.helpers import keep

pytestmark = pytest.mark.anyio

LATER = NOW + timedelta(seconds=30)
OLD, NEW, WRONG = new_key(), new_key(), new_key()
SECRETS = (
    "secret argument",
    "secret meta",
    "secret identity",
    "secret message",
    "secret question",
    "secret answer",
    "secret step",
    "secret result",
    "secret failure",
    "secret data",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@pytest.fixture(autouse=True)
def _no_key_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COATCHECK_KEY", raising=False)


async def keep_secrets(store: Store) -> list[Task]:
    """Make tasks that together hold every secret there is."""
    call = ToolCall(
        tool="slow",
        arguments=encode({"a": "secret argument"}),
        meta=encode({"m": "secret meta"}),
        identity=encode({"i": "secret identity"}),
    )
    question = InputRequest(method="elicitation/create", params=encode({"message": "secret question"}))
    failure = Failure(message="secret failure", data=encode(["secret data"]))
    asked = (
        Claimed("w", LATER),
        Noted(1, "secret message"),
        Recorded(1, (an_entry("secret step"),)),
        InputRequested(1, {"k": question, "l": question}, timedelta(days=1)),
        InputProvided({"k": encode("secret answer")}),
    )
    return [
        await keep(store, replace(a_task("asked"), call=call), *asked),
        await keep(store, a_task("done"), Claimed("w", LATER), Completed(1, encode("secret result"))),
        await keep(store, a_task("failed", "bob"), Claimed("w", LATER), Failed(1, failure)),
    ]


async def all_tasks(path: Path, key: str | None) -> list[Task]:
    async with open_store(url(path), key=key) as store:
        return sorted(await store.list(Query(owner=EVERYONE)), key=lambda task: task.id)


def found(secrets: tuple[str, ...], *files: bytes) -> list[str]:
    return [secret for secret in secrets if any(secret.encode() in file for file in files)]


# What is hidden


async def test_with_a_key_no_secret_is_in_the_log_or_the_file(path: Path) -> None:
    async with open_store(url(path), key=NEW) as store:
        await keep_secrets(store)
        assert found(SECRETS, log(path)) == []
    assert found(SECRETS, *contents(path)) == []


async def test_without_a_key_every_secret_is_in_the_log_and_the_file(path: Path) -> None:
    """Shows that the search would find them."""
    async with open_store(url(path)) as store:
        await keep_secrets(store)
        assert found(SECRETS, log(path)) == list(SECRETS)
    assert found(SECRETS, *contents(path)) == list(SECRETS)


async def test_with_the_key_everything_is_read_back_as_it_was(path: Path) -> None:
    async with open_store(url(path), key=NEW) as store:
        kept = await keep_secrets(store)
    assert await all_tasks(path, NEW) == kept
    async with open_store(url(path), key=NEW) as store:
        assert list(await store.journal("asked")) == [an_entry("secret step")]


async def test_ids_owners_tools_and_times_stay_readable_for_the_indexes(path: Path) -> None:
    async with open_store(url(path), key=NEW) as store:
        await keep_secrets(store)
    rows = sql(path, "select id, owner, tool, lease_until is not null, expires_at is not null from task order by id")
    assert rows == [("asked", "ann", "slow", 1, 1), ("done", "ann", "slow", 0, 1), ("failed", "bob", "slow", 0, 1)]


async def test_the_same_task_sealed_twice_looks_different(path: Path) -> None:
    async with open_store(url(path), key=NEW) as store:
        await store.insert(a_task())
        before = sql(path, "select body from task")
        assert await store.replace(replace(a_task(), version=2))
        assert await store.replace(replace(a_task(), version=3))
    assert len({*before, *sql(path, "select body from task")}) == 2


# Which key


@pytest.mark.parametrize("key", [None, WRONG, f"{WRONG},{NEW}"], ids=["none", "another", "two others"])
async def test_a_key_that_does_not_fit_is_refused_at_once_and_nothing_is_overwritten(
    path: Path, key: str | None
) -> None:
    async with open_store(url(path), key=OLD) as store:
        kept = await keep_secrets(store)
    before = contents(path)
    with pytest.raises(KeyRefused, match="set COATCHECK_KEY to it, or add it after the current key") as refusal:
        await all_tasks(path, key)
    assert str(path) in str(refusal.value)
    assert contents(path) == before
    assert await all_tasks(path, OLD) == kept


MALFORMED = {
    "words": "correct horse battery staple",
    "short": base64.b64encode(bytes(16)).decode(),
    "long": base64.b64encode(bytes(33)).decode(),
    "hex": "00" * 32,
    "cut": NEW[:-1],
    "a good one and a bad one": f"{NEW},bad",
}


@pytest.mark.parametrize("key", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_key_is_refused_with_how_to_make_one(path: Path, key: str) -> None:
    with pytest.raises(KeyRefused, match=r"must be 32 bytes in base64; make one with: .*coatcheck.new_key") as refusal:
        await all_tasks(path, key)
    assert key not in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("key", ["", " ", ",", " , "])
async def test_an_empty_key_is_refused_and_not_taken_for_none(path: Path, key: str) -> None:
    with pytest.raises(KeyRefused, match=r"key is empty; make one with: .*coatcheck.new_key"):
        await all_tasks(path, key)


async def test_an_empty_variable_is_refused_and_not_taken_for_none(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COATCHECK_KEY", "")
    with pytest.raises(KeyRefused, match="key is empty"):
        await all_tasks(path, None)


async def test_the_key_is_taken_from_the_environment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COATCHECK_KEY", NEW)
    async with open_store(url(path)) as store:
        kept = await keep_secrets(store)
    assert found(SECRETS, *contents(path)) == []
    monkeypatch.delenv("COATCHECK_KEY")
    assert await all_tasks(path, NEW) == kept


async def test_a_key_that_is_passed_beats_the_one_in_the_environment(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COATCHECK_KEY", WRONG)
    async with open_store(url(path), key=NEW) as store:
        kept = await keep_secrets(store)
    monkeypatch.delenv("COATCHECK_KEY")
    assert await all_tasks(path, NEW) == kept


# A new key


async def test_plain_tasks_stay_readable_once_there_is_a_key_and_are_sealed_when_they_change(path: Path) -> None:
    async with open_store(url(path)) as store:
        kept = await keep_secrets(store)
    async with open_store(url(path), key=NEW) as store:
        assert sorted(await store.list(Query(owner=EVERYONE)), key=lambda task: task.id) == kept
        assert list(await store.journal("asked")) == [an_entry("secret step")]
        assert await store.replace(advance(kept[0], Noted(1, "changed"), NOW))
    ((body,), (other,), _) = sql(path, "select body from task order by id")
    assert found(SECRETS, body) == []
    assert found(SECRETS, other) == ["secret result"]


async def test_with_a_new_key_before_the_old_one_old_tasks_are_read_and_new_ones_sealed_with_the_new(
    path: Path,
) -> None:
    async with open_store(url(path), key=OLD) as store:
        old = await store.insert(a_task("old"))
    async with open_store(url(path), key=f"{NEW}, {OLD}") as store:
        assert await store.get("old") == old
        await store.insert(a_task("new"))
    ((new_key_id,), (old_key_id,)) = sql(path, "select sealed_by from task order by id")
    assert new_key_id != old_key_id
    with pytest.raises(KeyRefused, match=f"sealed with key {old_key_id},"):
        await all_tasks(path, NEW)
    with pytest.raises(KeyRefused, match=f"sealed with key {new_key_id},"):
        await all_tasks(path, OLD)


async def test_the_old_key_may_go_once_no_task_needs_it(path: Path) -> None:
    async with open_store(url(path), key=OLD) as store:
        changing, going = await store.insert(a_task("changing")), await store.insert(a_task("going"))
    async with open_store(url(path), key=f"{NEW},{OLD}") as store:
        changed = advance(changing, Claimed("w", LATER), NOW)
        assert await store.replace(changed)
        assert await store.delete(going)
    assert await all_tasks(path, NEW) == [changed]


async def test_a_key_that_only_a_journal_still_needs_is_asked_for_when_the_store_is_opened(path: Path) -> None:
    """The task itself was sealed anew with the new key, but what it had recorded before was not."""
    async with open_store(url(path), key=OLD) as store:
        task = await keep(store, a_task(), Claimed("w", LATER), Recorded(1, (an_entry("first"),)))
    async with open_store(url(path), key=f"{NEW},{OLD}") as store:
        changed = advance(task, Noted(1, "half"), NOW)
        assert await store.replace(changed)
        assert list(await store.journal("a")) == [an_entry("first")]
    with pytest.raises(KeyRefused, match=f"{path} holds tasks sealed with key"):
        await all_tasks(path, NEW)
    async with open_store(url(path), key=f"{NEW},{OLD}") as store:
        assert await store.delete(changed)
    assert await all_tasks(path, NEW) == []


# Someone with the file, but without the key


async def two_owners(path: Path) -> None:
    async with open_store(url(path), key=NEW) as store:
        entries = (an_entry("first"), an_entry("second"))
        await keep(store, a_task("a", "ann"), Claimed("w", LATER), Recorded(1, entries))
        await keep(store, a_task("b", "bob"), Claimed("w", LATER), Recorded(1, entries))


async def read_a(path: Path) -> None:
    async with open_store(url(path), key=NEW) as store:
        await store.get("a")
        await store.journal("a")


MOVES = {
    "another task's body": "update task set body = (select body from task where id = 'b') where id = 'a'",
    "another task's whole row": (
        "update task set (version, owner, tool, state, created_at, expires_at, sealed_by, body) ="
        " (select version, owner, tool, state, created_at, expires_at, sealed_by, body from task where id = 'b')"
        " where id = 'a'"
    ),
    "another owner": "update task set owner = 'bob' where id = 'a'",
    "no owner": "update task set owner = null where id = 'a'",
    "another task's entry": "update entry set body = (select body from entry where task_id = 'b') where task_id = 'a'",
    "another place in the journal": (
        "update entry set body = (select body from entry where task_id = 'a' and number = 2) where task_id = 'a'"
    ),
    "an entry as a task": "update task set body = (select body from entry where task_id = 'a' limit 1) where id = 'a'",
    "a task as an entry": "update entry set body = (select body from task where id = 'a') where task_id = 'a'",
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
async def test_what_was_sealed_cannot_be_moved_to_another_place(path: Path, move: str) -> None:
    await two_owners(path)
    await read_a(path)
    sql(path, move)
    with pytest.raises(KeyRefused, match="not trusted"):
        await read_a(path)


def flipped(at: int) -> Callable[[bytes], bytes]:
    return lambda body: body[: at % len(body)] + bytes([body[at] ^ 0x01]) + body[at % len(body) + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "the mark": flipped(0),
    "the key's id": flipped(3),
    "the nonce": flipped(7),
    "the text": flipped(40),
    "the tag": flipped(-1),
    "cut short": lambda body: body[:-1],
    "cut to the head": lambda body: body[:19],
    "cut within the head": lambda body: body[:10],
    "nothing left": lambda body: b"",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("table", ["task", "entry"])
async def test_what_was_changed_by_a_single_byte_is_refused(
    path: Path, table: str, damage: Callable[[bytes], bytes]
) -> None:
    await two_owners(path)
    where = "id = 'a'" if table == "task" else "task_id = 'a' and number = 1"
    ((body,),) = sql(path, f"select body from {table} where {where}")
    sql(path, f"update {table} set body = ? where {where}", damage(body))
    with pytest.raises(KeyRefused, match="Task a"):
        await read_a(path)


async def test_tasks_sealed_by_others_after_the_store_was_opened_without_a_key_are_refused_too(path: Path) -> None:
    async with open_store(url(path)) as plain, open_store(url(path), key=NEW) as sealed:
        await sealed.insert(a_task())
        with pytest.raises(KeyRefused, match="set COATCHECK_KEY"):
            await plain.get("a")
