"""A task in a process of its own: what that process has, and what it has not."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from coatcheck import Engine, Worker, tool
from coatcheck.errors import InvalidArgument
from coatcheck.runners.detached.work import Launcher
from tests.detached.app import HOME, POLICIES, tools
from tests.detached.conftest import PATIENCE, Says, failure, gone, is_alive, processes_of, result, words

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_the_tool_runs_in_a_session_of_its_own_with_a_log_and_nothing_inherited(
    engine: Engine, worker: Worker, tmp_path: Path
) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    task = await engine.submit("where", identity={"sub": "ann"})
    done = await engine.finished(task, PATIENCE)
    found, log = result(done), str(tmp_path / "tasks.db.logs" / f"{task.id}.log")
    assert found["pid"] == found["session"] != os.getpid()
    assert found["attempt"] == done.attempt == 2
    assert found["identity"] == {"sub": "ann"}
    assert found["files"] == {"0": "/dev/null", "1": log, "2": log}
    assert os.readlink(f"/proc/self/fd/{writer}") not in found["open"]
    assert found["folder"] == str(Path.cwd())
    assert found["environment"]["COATCHECK_TASK"] == task.id
    assert "COATCHECK_LETTER" not in found["environment"], "what the tool starts is not for this task"
    await gone(found["pid"])
    os.close(reader)
    os.close(writer)


async def test_what_the_tool_says_is_in_a_log_for_nobody_else_to_read(
    engine: Engine, worker: Worker, tmp_path: Path
) -> None:
    task = await engine.finished(await worker.submit("where"), PATIENCE)
    await gone(result(task)["pid"])
    log = tmp_path / "tasks.db.logs" / f"{task.id}.log"
    lines = log.read_text()
    assert "said by the tool\ncomplained by the tool\n" in lines
    assert f"Task {task.id} is over" in lines
    assert "the app was closed" in lines
    assert (log.stat().st_mode & 0o777, log.parent.stat().st_mode & 0o777) == (0o600, 0o700)


async def test_logs_of_a_month_ago_are_forgotten_beside_the_event_loop(
    engine: Engine, worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    glob, lookers = Path.glob, list[threading.Thread]()

    def noted(path: Path, pattern: str) -> Generator[Path]:
        if path.name == "tasks.db.logs":
            lookers.append(threading.current_thread())
        return glob(path, pattern)

    monkeypatch.setattr(Path, "glob", noted)
    logs = tmp_path / "tasks.db.logs"
    logs.mkdir()
    for name in ("old.log", "old.txt", "new.log"):
        (logs / name).touch()
    for name in ("old.log", "old.txt"):
        os.utime(logs / name, (0, 0))
    task = await engine.finished(await worker.submit("where"), PATIENCE)
    async with asyncio.timeout(PATIENCE):
        while (logs / "old.log").exists():  # noqa: ASYNC110, as no event tells us
            await asyncio.sleep(0.002)
    assert threading.main_thread() not in lookers
    assert {path.name for path in logs.iterdir()} == {"old.txt", "new.log", f"{task.id}.log"}


async def test_the_log_of_a_task_that_is_run_again_is_not_old(engine: Engine, url: str, tmp_path: Path) -> None:
    task = await engine.submit("where")
    log = tmp_path / "tasks.db.logs" / f"{task.id}.log"
    log.parent.mkdir()
    log.write_text("said a month ago\n")
    os.utime(log, (0, 0))
    async with Worker(engine, tools(url), grace=PATIENCE):
        await engine.finished(task, PATIENCE)
    assert log.read_text().startswith("said a month ago\n")


async def test_a_tool_that_fails_fails_its_task(engine: Engine, worker: Worker) -> None:
    assert failure(await engine.finished(await worker.submit("fail"), PATIENCE)) == "ValueError: no luck"


async def test_the_time_of_a_tool_is_limited_in_its_process(
    engine: Engine, worker: Worker, tmp_path: Path, log: Path
) -> None:
    task = await engine.finished(await worker.submit("hold briefly", {"log": str(log)}), PATIENCE)
    assert "took longer than its 0:00:00.300000" in failure(task)
    for pid in processes_of(tmp_path):
        await gone(pid)
    assert words(log) == ["cleaned"]


async def test_the_host_has_a_free_slot_once_the_task_was_taken_over(
    engine: Engine, url: str, holding: Says, log: Path
) -> None:
    async def ping(ctx: object) -> str:
        return "pong"

    async with Worker(engine, [*tools(url), tool(ping)], slots=1) as worker:
        held = await worker.submit("hold", {"log": str(log)})
        pid, *_ = await holding(held)
        assert result(await engine.finished(await worker.submit("ping"), PATIENCE)) == "pong"
        assert is_alive(pid)
        await engine.cancel(held.id)
        await gone(pid)


async def test_there_are_no_more_processes_at_once_than_there_may_be(
    engine: Engine, url: str, holding: Says, log: Path
) -> None:
    async with Worker(engine, tools(url, at_most=1)) as worker:
        first = await worker.submit("hold", {"log": str(log)})
        await holding(first)
        second = await worker.submit("where")
        assert (await engine.get(second.id)).attempt == 1
        await engine.cancel(first.id)
        done = await engine.finished(second, PATIENCE)
        assert done.status == "completed"
        assert words(log) == ["cleaned"], "the first had ended before the second began"


async def test_a_store_that_cannot_be_shared_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="cannot share memory://"):
        Launcher(store="memory://", home=HOME, app="app")


@pytest.mark.parametrize("at_most", [0, -1])
async def test_no_process_at_all_is_refused(url: str, at_most: int) -> None:
    with pytest.raises(InvalidArgument, match="at_most"):
        Launcher(store=url, home=HOME, app="app", at_most=at_most)


# Processes that cannot be started


@pytest.mark.parametrize(
    ("home", "how"),
    [
        ("tests.detached.nowhere:home", "exit code 1"),
        ("tests.detached.app:nothing", "exit code 1"),
        ("tests.detached.app:empty_home", "exit code 1"),
        ("tests.detached.app:home_that_dies", "signal SIGKILL"),
    ],
    ids=["no module", "no name", "no tool", "killed"],
)
async def test_a_process_that_ends_before_it_begins_fails_the_task_and_says_how(
    engine: Engine, url: str, tmp_path: Path, home: str, how: str
) -> None:
    async with Worker(engine, tools(url, home=home)) as worker:
        task = await engine.finished(await worker.submit("where"), PATIENCE)
    log = tmp_path / "tasks.db.logs" / f"{task.id}.log"
    assert failure(task) == f"The tool's process ended before it began ({how}); its log is {log}"
    assert how.startswith("signal") or log.read_text().strip()


async def test_a_process_that_does_not_begin_is_ended_after_a_while(engine: Engine, url: str) -> None:
    home = "tests.detached.app:home_that_never_opens"
    async with Worker(engine, tools(url, home=home, start_within=0.5)) as worker:
        task = await engine.finished(await worker.submit("where"), PATIENCE)
    assert "did not begin within 0:00:00.500000; its log is" in failure(task)


@pytest.mark.parametrize("python", ["", "/no/such/python", "/"], ids=["unknown", "missing", "a folder"])
async def test_without_an_interpreter_the_task_fails_and_says_so(engine: Engine, url: str, python: str) -> None:
    async with Worker(engine, tools(url, python=python)) as worker:
        task = await engine.finished(await worker.submit("where"), PATIENCE)
    assert failure(task).startswith("No process could be started for the tool: ")


async def test_without_a_place_for_the_log_the_task_fails_and_says_so(
    engine: Engine, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    with caplog.at_level(logging.CRITICAL):
        async with Worker(engine, tools(url, logs=tmp_path / "file")) as worker:
            task = await engine.finished(await worker.submit("where"), PATIENCE)
    assert failure(task).startswith("No process could be started for the tool: ")


async def test_a_result_that_is_too_large_fails_the_task_there_as_well(engine: Engine, url: str) -> None:
    narrow = Engine(engine.store, POLICIES["narrow"])
    async with Worker(narrow, tools(url, "narrow"), grace=PATIENCE) as worker:
        task = await narrow.finished(await worker.submit("where"), PATIENCE)
    assert "but at most 10 are allowed; return a link" in failure(task)
