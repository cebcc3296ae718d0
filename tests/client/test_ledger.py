"""The ledger: what was handed in is found again, by this program or another."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from coatcheck.client import Client
from coatcheck.client.client import Mode
from coatcheck.client.ledger import STATE_VARIABLE, Entry, Ledger, default_path
from coatcheck.errors import Interrupted, InvalidArgument, StoreUnavailable, StoreUnusable, UnknownTool
from coatcheck.liveness import name_worker
from coatcheck.task import Status
from tests.client.app import RUNS_VARIABLE
from tests.client.conftest import Person
from tests.conformance.serving import serving

pytestmark = pytest.mark.anyio
PATIENCE = 60
SINNER = Path(__file__).parent / "sinner.py"
TARGET = {"url": "http://example.test/mcp"}


def an_entry(key: str, **more: Any) -> Entry:
    started_at = datetime(2026, 1, 1, tzinfo=UTC)
    given: dict[str, Any] = {"target": TARGET, "tool": "add", "arguments": {"a": 1}, "started_at": started_at}
    return Entry(key=key, **{**given, **more})


def _times(runs: Path, word: str) -> int:
    return runs.read_text().splitlines().count(word)


def a_dead_holder() -> str:
    """Return the name of a process that was, and is no more."""
    program = "from coatcheck.liveness import name_worker; print(name_worker())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


# The file


def test_what_is_written_is_there_for_others(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger") as one, Ledger(tmp_path / "ledger") as other:
        one.begin(an_entry("k", holder=name_worker()))
        one.became("k", "t1", "2026-07-28")
        one.saw("k", "working")
        (entry,) = other.entries()
    assert (entry.task_id, entry.protocol, entry.status, entry.arguments) == ("t1", "2026-07-28", "working", {"a": 1})
    assert entry.holder_alive


def test_only_what_nobody_living_holds_can_be_taken(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.begin(an_entry("living", holder=name_worker()))
        ledger.begin(an_entry("dead", holder=a_dead_holder()))
        ledger.begin(an_entry("free"))
        ledger.begin(an_entry("elsewhere", target={"url": "http://other.test/mcp"}))
        assert {entry.key for entry in ledger.take("me", TARGET)} == {"dead", "free"}
        assert {entry.key for entry in ledger.entries() if entry.holder == "me"} == {"dead", "free"}


def test_what_one_has_taken_another_cannot(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.begin(an_entry("free"))
        assert len(ledger.take(name_worker())) == 1
        assert len(ledger.take(name_worker())) == 0


def test_a_call_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        for task_id in ("abc", "abd", "ab"):
            ledger.begin(an_entry(f"key of {task_id}", task_id=task_id))
        assert ledger.find("abc").task_id == "abc"
        assert ledger.find("ab").task_id == "ab"
        with pytest.raises(InvalidArgument, match="3 tasks begin with 'a'; write more of the id"):
            ledger.find("a")
        with pytest.raises(InvalidArgument, match="The ledger has no task 'x'"):
            ledger.find("x")


def test_answers_are_kept_until_their_call_is_forgotten(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.begin(an_entry("k"))
        ledger.answered("k", "q", {"action": "accept"})
        assert ledger.answer("k", "q") == {"action": "accept"}
        ledger.forget("k")
        assert ledger.answer("k", "q") is None
        assert ledger.entries() == []


def test_it_is_for_its_user_only(tmp_path: Path) -> None:
    with Ledger(tmp_path / "folder" / "ledger") as ledger:
        assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(ledger.path.parent.stat().st_mode) == 0o700


def test_it_lives_in_the_users_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STATE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "coatcheck" / "calls.ledger"
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "elsewhere"))
    assert default_path() == tmp_path / "elsewhere" / "calls.ledger"


def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(b"a diary" * 100)
    with pytest.raises(StoreUnusable, match="is no ledger"):
        Ledger(path)
    assert path.read_bytes() == b"a diary" * 100


def test_a_database_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with sqlite3.connect(path) as db:
        db.execute("create table diary (entry text)")
    db.close()
    with pytest.raises(StoreUnusable, match="is no ledger of this version"):
        Ledger(path)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="choose another path, or do without"):
        Ledger(tmp_path / "file" / "ledger")


# With a server


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs") / "runs"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, runs: Path) -> Generator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(RUNS_VARIABLE, str(runs))
        with serving("tests.client.app:server", tmp_path_factory.mktemp("store")) as served:
            yield served


@pytest.mark.slow
async def test_a_call_is_in_the_ledger_until_its_result_was_delivered(url: str, mode: Mode, tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    async with Client(url, mode=mode, ledger=path) as client:
        handle = await client.start("gate", {"name": str(tmp_path)})
        with Ledger(path) as ledger:
            (entry,) = ledger.entries()
            assert (entry.task_id, entry.tool, entry.protocol) == (handle.id, "gate", mode)
            await client.call("open_gate", {"name": str(tmp_path)})
            async with asyncio.timeout(PATIENCE):
                await handle
            assert ledger.entries() == []


@pytest.mark.slow
async def test_another_client_resumes_what_one_has_left(url: str, mode: Mode, tmp_path: Path) -> None:
    path, name = tmp_path / "ledger", str(tmp_path)
    async with Client(url, mode=mode, ledger=path) as client:
        left = await client.start("gate", {"name": name})
        assert await client.resume() == []
    async with Client(url, mode=mode, ledger=path) as client:
        (handle,) = await client.resume()
        assert (handle.id, handle.tool) == (left.id, "gate")
        await client.call("open_gate", {"name": name})
        async with asyncio.timeout(PATIENCE):
            assert (await handle).data == f"through {name}"
        assert await client.resume() == []


@pytest.mark.slow
async def test_a_detached_task_is_anybodys(url: str, mode: Mode, tmp_path: Path) -> None:
    path, name = tmp_path / "ledger", str(tmp_path)
    async with Client(url, mode=mode, ledger=path) as client, Client(url, mode=mode, ledger=path) as other:
        handle = await client.start("gate", {"name": name})
        assert await other.resume() == []
        await handle.detach()
        (taken,) = await other.resume()
        assert (await taken.cancel()).status is Status.CANCELLED
        assert await client.resume() == []


@pytest.mark.slow
async def test_a_call_that_was_cut_off_before_it_was_answered_is_handed_in_once(
    url: str, mode: Mode, tmp_path: Path, runs: Path
) -> None:
    """The row of a program that died between sending a call and hearing of its task."""
    path, word = tmp_path / "ledger", str(tmp_path)
    for _ in range(2):
        with Ledger(path) as ledger:
            entry = an_entry(f"key {word}", target={"url": url}, tool="count", arguments={"word": word})
            ledger.begin(entry)
        async with Client(url, mode=mode, ledger=path) as client:
            (handle,) = await client.resume()
            async with asyncio.timeout(PATIENCE):
                assert (await handle).data == word
    assert await asyncio.to_thread(_times, runs, word) == 1


@pytest.mark.slow
async def test_an_answer_that_was_given_is_not_asked_for_again(
    url: str, mode: Mode, tmp_path: Path, person: Person
) -> None:
    """The rows of a program that died between hearing an answer and sending it."""
    path = tmp_path / "ledger"
    async with Client(url, mode=mode, ledger=path, answers_later=True) as client:
        handle = await client.start("greet")
        async with asyncio.timeout(PATIENCE):
            async for snapshot in handle.events():
                if snapshot.status is Status.INPUT_REQUIRED:
                    break
        async with Client(url, mode="2026-07-28", ledger=False) as looking:
            (key,) = (await looking.handle(handle.id).status()).questions
    with Ledger(path) as ledger:
        (entry,) = ledger.entries()
        ledger.answered(entry.key, key, {"action": "accept", "content": {"name": "who was asked before"}})
    async with Client(url, mode=mode, ledger=path, elicitation_callback=person.elicit) as client:
        (handle,) = await client.resume()
        async with asyncio.timeout(PATIENCE):
            assert (await handle).data == "Hello, who was asked before!"
    assert person.asked == []


@pytest.mark.slow
async def test_a_call_that_nobody_can_tell_of_is_told_once(tmp_path: Path) -> None:
    """A server without idempotency keys, and a program that died before it was answered."""
    path, target = tmp_path / "ledger", [sys.executable, str(SINNER), "none"]
    spec = {"command": target[0], "args": target[1:], "cwd": os.getcwd()}
    with Ledger(path) as ledger:
        ledger.begin(an_entry("k", target=spec, tool="tool", arguments={}))
    async with Client(target, ledger=path) as client:
        (handle,) = await client.resume()
        with pytest.raises(Interrupted, match="'tool' was called"):
            await handle
    async with Client(target, ledger=path) as client:
        assert await client.resume() == []


@pytest.mark.slow
async def test_one_call_that_is_refused_does_not_keep_the_others_from_being_resumed(url: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with Ledger(path) as ledger:
        ledger.begin(an_entry("refused", target={"url": url}, tool="gone", arguments={}))
        ledger.begin(an_entry("taken", target={"url": url}, tool="add", arguments={"a": 1, "b": 2}))
    async with Client(url, ledger=path) as client:
        refused, taken = await client.resume()
        async with asyncio.timeout(PATIENCE):
            assert (await taken).data == 3
            with pytest.raises(UnknownTool):
                await refused
        assert await client.resume() == []


@pytest.mark.slow
async def test_a_call_that_is_no_task_leaves_nothing_in_the_ledger(url: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    async with Client(url, ledger=path) as client:
        assert (await client.call("at_once", {"word": "now"})).data == "now"
    with sqlite3.connect(path) as db:
        assert [db.execute(f"select count(*) from {table}").fetchone() for table in ("call", "answer")] == [(0,), (0,)]
    db.close()
