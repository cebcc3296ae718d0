"""Parents whose process is killed: run again, they find the children they have made, and bring them their answers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from coatcheck import ToolFailed
from coatcheck.server import LocalTask, TaskServer
from tests.crash.children import PATIENCE, Child
from tests.databases.fixtures import new_url
from tests.forked import fork
from tests.local.programs import build, run
from tests.local.stage import asked, until
from tests.requirements.marks import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_url(request.param, tmp_path)


class Stage:
    """A process with a parent, to be killed; and a server in this process that goes on."""

    def __init__(self, url: str, log: Path) -> None:
        self.url, self.log = url, log
        self._started: list[Child] = []

    async def start(self, tool: str, count: int) -> tuple[Child, str]:
        """Start the process, and return it with the id of the parent."""
        child = Child(*await fork(run, self.url, str(self.log), tool, str(count), stream=1))
        self._started.append(child)
        return child, await child.says("task")

    def server(self) -> TaskServer:
        return build(self.url, str(self.log))

    def worked(self) -> Counter[int]:
        """Return how often each child has really run."""
        return Counter(int(line) for line in self.log.read_text().splitlines())

    async def clean_up(self) -> None:
        for child in self._started:
            await child.clean_up()


@pytest.fixture
async def stage(url: str, tmp_path: Path) -> AsyncGenerator[Stage]:
    made = Stage(url, tmp_path / "log.txt")
    yield made
    await made.clean_up()


async def children_of(server: TaskServer, task: LocalTask[Any]) -> set[str]:
    return {child.id for child in (await server.list_tasks(task.latest.as_owner)).tasks}


async def result(task: LocalTask[Any]) -> list[str]:
    return (await task.result(PATIENCE)).structured_content["result"]


@requirement("X-29")
async def test_a_parent_that_is_run_again_finds_the_children_it_has_made(stage: Stage) -> None:
    victim, task_id = await stage.start("work", 3)
    for _ in range(2):
        await victim.says("holding")
    await victim.kill()
    async with stage.server().started() as server:
        task = await server.task(task_id)
        made = await children_of(server, task)
        assert len(made) == 3
        assert await result(task) == ["0", "1", "2"]
        assert (await children_of(server, task), task.latest.attempt) == (made, 2)
    assert stage.worked() == {0: 1, 1: 2, 2: 2}  # what had ended was not done again


@requirement("X-29")
async def test_answers_reach_children_whose_parent_was_killed_while_they_asked(stage: Stage) -> None:
    victim, task_id = await stage.start("ask", 2)
    async with stage.server().started() as server:
        task = await server.task(task_id)
        await asked(task, 2)
        made = await children_of(server, task)
        await victim.kill()
        await until(task, lambda now: now.lease is None)
        for number, key in enumerate(list(task.latest.input_requests)):
            await task.send_input("accept", {"name": f"name {number}"}, question=key)
        answers = await result(task)
        assert [answer[:3] for answer in answers] == ["0: ", "1: "]
        assert {answer[3:] for answer in answers} == {"name 0", "name 1"}
        assert await children_of(server, task) == made


async def test_a_child_that_was_lost_for_good_is_an_error_in_its_parent(stage: Stage) -> None:
    victim, task_id = await stage.start("fragile", 1)
    await victim.says("holding")
    await victim.kill()
    async with stage.server().started() as server:
        task = await server.task(task_id)
        with pytest.raises(ToolFailed, match="its process has ended"):
            await task.result(PATIENCE)
        assert (task.latest.attempt, len(await children_of(server, task))) == (2, 1)


@pytest.mark.parametrize("seed", range(4))
async def test_whenever_a_parent_is_killed_it_has_its_children_once(stage: Stage, seed: int) -> None:
    chance = random.Random(seed)
    victim, task_id = await stage.start("work", 12)
    for _ in range(chance.randrange(12)):  # so many run already, while others are still being made
        await victim.says("holding")
    await victim.kill()
    async with stage.server().started() as server:
        task = await server.task(task_id)
        before = await children_of(server, task)
        assert await result(task) == [str(n) for n in range(12)], f"seed {seed}"
        after = await children_of(server, task)
        assert (len(after), before <= after) == (12, True), f"seed {seed}"
    assert set(stage.worked()) == set(range(12)), f"seed {seed}"
