"""The tools of a server in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from coatcheck import Client, Engine, Status
from coatcheck.errors import InvalidArgument
from coatcheck.runners.detached.target import find, load
from coatcheck.server import TaskPolicy, TaskServer
from coatcheck.wiring import APP_VARIABLE
from coatcheck.worker import TaskWorker
from tests.detached import app, served
from tests.detached.conftest import PATIENCE, failure, gone, is_alive, result

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SERVER = {"command": sys.executable, "args": ["-m", "coatcheck", "serve", "tests.detached.served:server", "--stdio"]}


@pytest.fixture
async def worker(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[TaskWorker]:
    """The worker of a server in this process."""
    monkeypatch.setenv("COATCHECK_STORE", url)
    monkeypatch.delenv("COATCHECK_CONCURRENCY", raising=False)
    async with served.server.tasks.lifespan(served.server):
        monkeypatch.delenv("COATCHECK_STORE")
        worker = served.server.tasks.running.worker
        assert worker
        yield worker


async def test_a_server_is_found_by_the_process_of_its_task(engine: Engine, worker: TaskWorker) -> None:
    task = await worker.submit("whoami", {"name": "Ann"}, owner="ann")
    told = result(await engine.finished(task, PATIENCE))["structuredContent"]
    assert (told["name"], told["greeting"], told["owner"]) == ("Ann", "hello", "ann")
    assert told["pid"] != os.getpid()
    assert told["settings"] == ["COATCHECK_TASK"], "what the tool starts must not think that it is this server"


async def test_a_tool_may_stay_where_others_are_detached(engine: Engine, worker: TaskWorker) -> None:
    task = await engine.finished(await worker.submit("here"), PATIENCE)
    assert result(task)["structuredContent"] == {"result": os.getpid()}


async def test_a_detached_task_has_children_that_run_where_they_belong(engine: Engine, worker: TaskWorker) -> None:
    task = await engine.finished(await worker.submit("delegate"), PATIENCE)
    told = result(task)["structuredContent"]
    assert told["here"] == os.getpid()
    assert len({told["pid"], told["here"], told["whoami"]}) == 3
    assert told["owner"] == task.as_owner
    assert len(await engine.list(task.as_owner)) == 2


async def test_a_task_outlives_its_host_over_stdio_and_the_next_host_has_its_result(
    engine: Engine, url: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    host = {**SERVER, "env": {**os.environ, "COATCHECK_STORE": url}, "cwd": str(Path.cwd())}
    async with Client(host) as client:
        handle = await client.start("hold", {"gate": str(gate)})
        async for snapshot in handle.events():
            if (snapshot.message or "").startswith("held by"):
                break
    task = await engine.get(handle.id)
    assert task.lease
    pid = int(task.lease.worker.split(":")[1])
    assert is_alive(pid), "the host has gone, its task has not"
    assert task.status is Status.WORKING
    async with Client(host) as client:
        handle = client.handle(handle.id)
        gate.write_bytes(b"go")
        assert (await handle.result()).data == pid
    await gone(pid)


async def test_an_app_that_is_no_server_fails_the_task(
    engine: Engine, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(APP_VARIABLE, "tests.detached.served:whoami")
    server = TaskServer("hidden", store=url)
    server.add_tool(served.here, "here", task=TaskPolicy(detached=True))
    async with server.tasks.lifespan(server):
        worker = server.tasks.running.worker
        assert worker
        task = await engine.finished(await worker.submit("here"), PATIENCE)
    assert "ended before it began (exit code 1)" in failure(task)
    log = tmp_path / "tasks.db.logs" / f"{task.id}.log"
    assert "tests.detached.served:whoami is no server with tasks" in log.read_text()


@pytest.mark.parametrize(
    ("url", "reason"),
    [("sqlite:///tasks.db", "at the top level of a module"), ("memory://", "cannot share memory://")],
    ids=["nobody finds the server", "nobody finds its tasks"],
)
async def test_what_cannot_be_detached_is_refused_when_the_server_starts(
    url: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if url == "memory://":
        monkeypatch.setenv(APP_VARIABLE, "tests.detached.served:server")
    server = TaskServer("hidden", store=url)
    server.add_tool(served.here, "here", task=TaskPolicy(detached=True))
    with pytest.raises(InvalidArgument, match=reason):
        async with server.tasks.lifespan(server):
            pass


async def test_a_tool_that_only_this_process_has_fails_its_tasks_and_the_log_says_why(
    engine: Engine, worker: TaskWorker, tmp_path: Path
) -> None:
    served.server.add_tool(served.here, "elsewhere", task=True)
    try:
        task = await engine.finished(await worker.submit("elsewhere"), PATIENCE)
    finally:
        served.server.remove_tool("elsewhere")
    assert "ended before it began (exit code 1)" in failure(task)
    log = tmp_path / "tasks.db.logs" / f"{task.id}.log"
    assert "There is no tool 'elsewhere' in tests.detached.served:server" in log.read_text()


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
