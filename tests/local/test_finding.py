"""Finding tasks again: by their ids, and by whose they are."""

from __future__ import annotations

from typing import Any

import pytest

from coatcheck import InvalidArgument, Status, TaskNotFound
from coatcheck.server import TaskMeta, TaskServer
from tests.clock import Clock
from tests.local.stage import TASK, text_of
from tests.requirements.marks import requirement

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def tools(server: TaskServer) -> None:
    @server.tool(task=True)
    async def echo(n: int) -> int:
        return n


async def hand_in(server: TaskServer, count: int, owner: str | None = None) -> list[str]:
    """Hand in so many calls for an owner; return their ids, newest first."""
    meta = TaskMeta(owner=owner)
    tasks = [await server.call_tool("echo", {"n": n}, task_meta=meta) for n in range(count)]
    for task in tasks:
        await task.wait()
    return [task.id for task in reversed(tasks)]


@requirement("E-015")
async def test_tasks_are_listed_by_owner_newest_first(server: TaskServer) -> None:
    async with server.started():
        nobodys, anns = await hand_in(server, 2), await hand_in(server, 3, "ann")
        page = await server.list_tasks()
        assert ([task.id for task in page.tasks], page.next_cursor) == (nobodys, None)
        page = await server.list_tasks("ann")
        assert [task.id for task in page.tasks] == anns
        assert [text_of(await task) for task in page.tasks] == ["2", "1", "0"]
        assert (await server.list_tasks("bob")).tasks == []


@requirement("E-015")
@pytest.mark.parametrize("size", [1, 2, 3, 7, 8])
async def test_a_listing_goes_on_where_its_cursor_says(server: TaskServer, size: int) -> None:
    async with server.started():
        ids = await hand_in(server, 7, "ann")
        found: list[list[str]] = []
        cursor = None
        while cursor or not found:
            page = await server.list_tasks("ann", cursor=cursor, page_size=size)
            found.append([task.id for task in page.tasks])
            cursor = page.next_cursor
        assert [task_id for part in found for task_id in part] == ids
        assert [len(part) for part in found[:-1]] == [size] * (len(found) - 1)


@requirement("E-015")
async def test_a_cursor_of_another_owner_is_refused(server: TaskServer) -> None:
    async with server.started():
        for owner in ("ann", "bob"):
            await hand_in(server, 2, owner)
        cursor = (await server.list_tasks("ann", page_size=1)).next_cursor
        for owner in ("bob", None):
            with pytest.raises(InvalidArgument, match="list from the beginning"):
                await server.list_tasks(owner, cursor=cursor)
        with pytest.raises(InvalidArgument, match="list from the beginning"):
            await server.list_tasks("ann", cursor="nonsense")


@pytest.mark.parametrize("size", [-1, 0, 501, 10**9])
async def test_a_page_has_a_size(server: TaskServer, size: int) -> None:
    async with server.started():
        await hand_in(server, 1)
        with pytest.raises(InvalidArgument, match=f"from 1 to 500, but it is {size}"):
            await server.list_tasks(page_size=size)
        assert len((await server.list_tasks(page_size=500)).tasks) == 1


@requirement("E-018")
async def test_a_task_is_found_by_its_id_and_owner(server: TaskServer) -> None:
    async with server.started():
        (task_id,) = await hand_in(server, 1, "ann")
        found = await server.task(task_id, "ann")
        assert (found.id, found.latest.status) == (task_id, Status.COMPLETED)
        assert text_of(await found) == "0"


async def test_unknown_foreign_and_expired_tasks_are_refused_in_the_same_words(
    server: TaskServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server.started():
        (task_id,) = await hand_in(server, 1, "ann")
        mine = await server.task(task_id, "ann")
        refused: set[str] = set()
        asked: Any
        for asked in (("ann", "task_unknown"), ("bob", task_id), (None, task_id)):
            with pytest.raises(TaskNotFound) as error:
                await server.task(asked[1], asked[0])
            refused.add(str(error.value).replace(asked[1], "ID"))
        clock = Clock()
        clock.now = mine.latest.created_at
        clock.turn(days=2)
        monkeypatch.setattr(server.tasks.running.engine, "clock", clock)
        for verb in (mine.fetch, mine.cancel, mine.send_input, lambda: server.task(task_id, "ann")):
            with pytest.raises(TaskNotFound) as error:
                await verb()
            refused.add(str(error.value).replace(task_id, "ID"))
        assert refused == {"Task ID not found"}
        assert (await server.list_tasks("ann")).tasks == []


async def test_a_task_is_found_again_by_another_server_on_the_same_store(tmp_path: Any) -> None:
    def made() -> TaskServer:
        server = TaskServer("test", store=f"sqlite:///{tmp_path}/tasks.db")

        @server.tool(task=True)
        async def echo(n: int) -> int:
            return n

        @server.resource("notes://{name}", task=True)
        async def note(name: str) -> str:
            return name

        return server

    first, second = made(), made()
    async with first.started():
        (task_id,) = await hand_in(first, 1)
        reading = await first.read_resource("notes://x", task_meta=TASK)
        await reading
    async with second.started():
        assert text_of(await (await second.task(task_id))) == "0"
        (item,) = await (await second.task(reading.id))
        assert item.content == "x"
