"""The tools of a server in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from coatcheck import Engine, Worker
from coatcheck.errors import InvalidArgument
from coatcheck.runners.detached.target import find, load
from coatcheck.runners.detached.work import detached
from coatcheck.server import TaskServer
from coatcheck.server.detached import APP_VARIABLE, launcher_for
from tests.detached import app, served
from tests.detached.conftest import PATIENCE, failure, result

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
async def worker(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Worker]:
    """The worker of a server in this process."""
    monkeypatch.setenv("COATCHECK_STORE", url)
    monkeypatch.delenv("COATCHECK_CONCURRENCY", raising=False)
    async with served.server.tasks.lifespan(served.server):
        monkeypatch.delenv("COATCHECK_STORE")
        running = served.server.tasks.running
        assert isinstance(running.worker, Worker)
        yield running.worker


@pytest.fixture
def add(worker: Worker, url: str) -> Callable[[], None]:
    def add() -> None:
        toolbox = served.server.tasks._parts.toolbox  # pyright: ignore[reportPrivateUsage]
        worker.add(detached(toolbox.tool("whoami"), launcher_for(served.server, url)), replace=True)

    return add


async def test_a_server_is_found_by_the_process_of_its_task(
    engine: Engine, worker: Worker, add: Callable[[], None]
) -> None:
    add()
    task = await worker.submit("whoami", {"name": "Ann"}, owner="ann")
    told = result(await engine.finished(task, PATIENCE))["structuredContent"]
    assert (told["name"], told["greeting"], told["owner"]) == ("Ann", "hello", "ann")
    assert told["pid"] != os.getpid()
    assert told["settings"] == ["COATCHECK_TASK"], "what the tool starts must not think that it is this server"


async def test_an_app_that_is_no_server_fails_the_task(
    engine: Engine, worker: Worker, add: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(APP_VARIABLE, "tests.detached.served:whoami")
    add()
    task = await engine.finished(await worker.submit("whoami", {"name": "Ann"}), PATIENCE)
    assert "ended before it began (exit code 1)" in failure(task)
    log = tmp_path / "tasks.db.logs" / f"{task.id}.log"
    assert "tests.detached.served:whoami is no server with tasks" in log.read_text()


def test_a_server_that_no_other_process_can_find_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="at the top level of a module"):
        launcher_for(TaskServer("hidden"), url)


def test_a_server_whose_tasks_are_in_memory_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="cannot share memory://"):
        launcher_for(served.server, "memory://")


# Where things are


def test_what_a_module_has_is_found_where_it_is_made() -> None:
    assert find(app.POLICIES) == "tests.detached.app:POLICIES"
    assert load("tests.detached.app:POLICIES") is app.POLICIES
    assert find(object()) is None


@pytest.mark.parametrize(
    "target", ["", "tests", ":name", "tests.detached.app:", "tests.detached.app:no.name", "no.py:x"]
)
def test_what_is_not_there_is_refused(target: str) -> None:
    with pytest.raises(InvalidArgument):
        load(target)


PROGRAM = """
from coatcheck.runners.detached.target import find, load
thing = object()
if __name__ == "__main__":
    print(find(thing))
    print(type(load(find(thing))).__name__)
"""


@pytest.mark.parametrize(
    ("command", "place"),
    [(("program.py",), "{}/program.py"), (("-m", "program"), "program"), (("-c", PROGRAM), None)],
    ids=["a file", "a module", "neither"],
)
def test_a_program_is_found_however_it_was_started(tmp_path: Path, command: tuple[str, ...], place: str | None) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    said = done.stdout.splitlines()
    assert said == (["None"] if place is None else [f"{place.format(tmp_path)}:thing", "object"]), done.stderr
