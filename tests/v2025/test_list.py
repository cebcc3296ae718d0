"""`tasks/list`: the caller's own tasks, newest first, page by page."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from coatcheck import Policy
from coatcheck.server import TaskContext
from tests.matrix.peers import PATIENCE
from tests.requirements.marks import requirement
from tests.v2025.bench import Bench, guarded
from tests.v2025.wire import Place, Talk, served

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench() -> Bench:
    return Bench("add", "wait", "complain", policy=Policy(quota=None))


async def pages(caller: Talk) -> list[list[str]]:
    """Return the ids on every page, first to last."""
    found: list[list[str]] = []
    cursor: dict[str, Any] = {}
    while True:
        page = await caller.ask("tasks/list", **cursor)
        found.append([task["taskId"] for task in page["tasks"]])
        if "nextCursor" not in page:
            return found
        assert len(found) < 10
        cursor = {"cursor": page["nextCursor"]}


async def many(place: Place, caller: Talk, count: int) -> list[str]:
    """Make tasks, and return their ids, newest first."""
    return [await caller.hand_in("wait") for _ in range(count)][::-1]


@requirement("F-031", "R-06", "E-001")
async def test_tasks_are_listed_newest_first_as_a_look_shows_them(caller: Talk) -> None:
    done = await caller.hand_in("complain")
    await caller.told(done, "failed")
    ids = [await caller.hand_in("wait"), done]
    listed = await caller.ask("tasks/list")
    assert listed == {"tasks": [await caller.get(task_id) for task_id in ids]}
    assert [task["status"] for task in listed["tasks"]] == ["working", "failed"]


@requirement("R-19", "F-031")
async def test_progress_is_listed_in_words_only(memory: Talk, bench: Bench) -> None:
    @bench.server.tool(task=True)
    async def copy(task: TaskContext) -> None:
        await task.progress(2, 5)
        bench.begun.set()
        await bench.go.wait()

    await memory.hand_in("copy")
    await asyncio.wait_for(bench.begun.wait(), PATIENCE)
    (listed,) = (await memory.ask("tasks/list"))["tasks"]
    assert listed["statusMessage"] == "2 of 5"
    assert "_meta" not in listed
    bench.go.set()


@requirement("F-031")
async def test_who_has_no_tasks_has_an_empty_list(caller: Talk) -> None:
    assert await caller.ask("tasks/list") == {"tasks": []}


@requirement("F-031", "G-010")
async def test_a_page_has_fifty_tasks_and_says_where_the_next_begins(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory()
        ids = await many(place, caller, 120)
        found = await pages(caller)
    assert [len(page) for page in found] == [50, 50, 20]
    assert [task_id for page in found for task_id in page] == ids


@requirement("F-031")
async def test_a_full_page_with_nothing_after_it_has_no_cursor(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory()
        await many(place, caller, 50)
        assert [len(page) for page in await pages(caller)] == [50]


@requirement("F-031")
async def test_what_is_made_meanwhile_moves_nothing_on_later_pages(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory()
        ids = await many(place, caller, 60)
        first = await caller.ask("tasks/list")
        await many(place, caller, 5)
        second = await caller.ask("tasks/list", cursor=first["nextCursor"])
    assert [task["taskId"] for task in second["tasks"]] == ids[50:]


@requirement("F-056", "F-031", "E-036", "G-010")
async def test_a_session_lists_its_own_tasks_only(bench: Bench) -> None:
    async with served(bench.server) as place:
        one, other = await place.http(), await place.http()
        mine, theirs = await one.hand_in("wait"), await other.hand_in("wait")
        assert await pages(one) == [[mine]]
        assert await pages(other) == [[theirs]]


@requirement("G-010", "E-036", "E-039", "G-014", "R-10")
async def test_a_user_lists_the_tasks_of_all_its_sessions_and_nobody_elses() -> None:
    async with served(guarded("wait").server) as place:
        one, other = await place.http(token="ann"), await place.http(token="ann")
        bob, elsewhere = await place.http(token="bob"), await place.http(token="ann-elsewhere")
        first, second = await one.hand_in("wait"), await other.hand_in("wait")
        assert await pages(one) == await pages(other) == [[second, first]]
        assert await pages(bob) == await pages(elsewhere) == [[]]


# Cursors


@requirement("R-28", "G-011", "F-061")
async def test_a_cursor_that_is_none_is_refused(caller: Talk) -> None:
    await caller.hand_in("wait")
    for cursor in ("", "nonsense", "AAAA", "=" * 9, "caf\u00e9", base64.urlsafe_b64encode(b"50").decode()):
        refused = await caller.refusal("tasks/list", cursor=cursor)
        assert refused["code"] == -32602, cursor
        assert "cursor" in refused["message"]


@requirement("R-28", "G-011", "E-049")
async def test_a_damaged_cursor_is_refused_wherever_the_damage_is(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller = await place.memory()
        await many(place, caller, 51)
        cursor: str = (await caller.ask("tasks/list"))["nextCursor"]
        assert len((await caller.ask("tasks/list", cursor=cursor))["tasks"]) == 1
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        damaged = [bytes([*raw[:at], raw[at] ^ 0xFF, *raw[at + 1 :]]) for at in range(len(raw))]
        for broken in (raw[:-1], raw + b"\0", *damaged):
            given = base64.urlsafe_b64encode(broken).decode().rstrip("=")
            assert (await caller.refusal("tasks/list", cursor=given))["code"] == -32602


@requirement("R-28", "E-049")
async def test_the_cursor_of_another_is_refused(bench: Bench) -> None:
    async with served(bench.server) as place:
        caller, other = await place.http(), await place.http()
        await many(place, caller, 51)
        cursor = (await caller.ask("tasks/list"))["nextCursor"]
        refused = await other.refusal("tasks/list", cursor=cursor)
        assert refused == await other.refusal("tasks/list", cursor="nonsense")


@requirement("E-049")
async def test_the_cursor_of_a_user_is_good_in_all_its_sessions() -> None:
    async with served(guarded("wait", policy=Policy(quota=None)).server) as place:
        one, other = await place.http(token="ann"), await place.http(token="ann")
        ids = await many(place, one, 51)
        cursor = (await one.ask("tasks/list"))["nextCursor"]
        rest = await other.ask("tasks/list", cursor=cursor)
    assert [task["taskId"] for task in rest["tasks"]] == ids[50:]
