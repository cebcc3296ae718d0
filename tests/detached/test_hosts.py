"""Hosts come and go; detached tasks stay."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from coatcheck import Engine, Task, Worker
from tests.detached.app import HOME, POLICIES, tools
from tests.detached.conftest import PATIENCE, Says, failure, gone, is_alive, processes_of, result

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
GATED = "tests.detached.app:gated_home"


async def host(manner: str, url: str, *arguments: str, home: str = HOME, app: str = "app") -> tuple[str, int]:
    """Run a host to its end; return the id of its task and its exit code.

    All it says is read to the end: until nobody, also none it has started, can say anything more.
    """
    command = (sys.executable, "-m", "tests.detached.host", manner, url, home, app, *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(PATIENCE):
        said, _ = await process.communicate()
    assert process.returncode is not None
    return said.decode().strip(), process.returncode


async def test_a_host_that_ends_leaves_its_task_running_and_none_of_its_pipes(
    engine: Engine, url: str, holding: Says, log: Path
) -> None:
    task_id, code = await host("leave", url, "hold", f"log={log}")
    assert code == 0
    task = await engine.get(task_id)
    pid, *_ = await holding(task)
    assert is_alive(pid)
    await engine.sweep()
    assert (await engine.get(task_id)).status == "working"
    await engine.cancel(task_id)
    await gone(pid)


async def test_a_host_that_is_killed_right_after_the_start_leaves_its_task_to_the_process(
    engine: Engine, url: str
) -> None:
    task_id, code = await host("die", url, "where")
    assert code == -signal.SIGKILL
    task = await engine.finished(await engine.get(task_id), PATIENCE)
    assert (task.status, task.attempt) == ("completed", 2)


@pytest.mark.parametrize(
    ("call", "reason"),
    [(("where",), "Task {} is already failed"), (("walk", "log=", "holds_at="), "Attempt 1 no longer holds task {}")],
    ids=["failed", "waiting"],
)
async def test_a_process_that_comes_too_late_does_not_run_the_task(
    engine: Engine, url: str, tmp_path: Path, call: tuple[str, ...], reason: str
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    task_id, code = await host("die", url, *call, home=GATED, app=str(gate))
    assert code == -signal.SIGKILL
    await engine.sweep()
    task = await engine.get(task_id)
    assert (task.status.is_terminal, task.lease, task.losses) == (call == ("where",), None, 1)
    await asyncio.to_thread(gate.write_bytes, b"go")
    for pid in processes_of(tmp_path):
        await gone(pid)
    log = tmp_path / "tasks.db.logs" / f"{task_id}.log"
    assert f"The task is not to be run here any more: {reason.format(task_id)}" in log.read_text()
    assert await engine.get(task_id) == task


async def test_a_host_that_is_told_to_stop_waits_until_its_task_was_taken_over(
    engine: Engine, url: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with Worker(engine, tools(url, str(gate), home=GATED), grace=0.01) as worker:
        task = await worker.submit("where")
        stopping = asyncio.create_task(worker.stop())
        await asyncio.to_thread(gate.write_bytes, b"go")
        await stopping
    task = await engine.finished(task, PATIENCE)
    # It waits no longer than for any other work that is slow to stop, which a busy machine may need.
    assert task.status == "completed" or "was shut down" in failure(task)


async def asked(engine: Engine, task: Task) -> str:
    async with asyncio.timeout(PATIENCE):
        task = await engine.settled(task, PATIENCE)
    (key,) = task.input_requests
    return key


@pytest.mark.parametrize("tool", ["ask", "ask patiently"])
async def test_a_question_is_answered_while_no_host_is_there(
    engine: Engine, url: str, tool: str, tmp_path: Path
) -> None:
    task_id, _ = await host("leave", url, tool)
    task = await engine.get(task_id)
    key = await asked(engine, task)
    (pid,) = processes_of(tmp_path)
    await engine.answer(task_id, None, {key: {"action": "accept", "content": {"n": 3}}})
    assert result(await engine.finished(task, PATIENCE)) == {"n": 3, "pid": pid}


async def test_a_process_does_not_leave_while_it_waits_for_an_answer(engine: Engine, url: str, tmp_path: Path) -> None:
    """In a host, work that waits makes room; here nobody might be there to begin it anew."""
    async with Worker(Engine(engine.store, POLICIES["parking"]), tools(url, "parking")) as worker:
        task = await worker.submit("ask patiently")
        key = await asked(engine, task)
    (pid,) = processes_of(tmp_path)
    changed = await engine.wait(await engine.get(task.id), 0.5)
    assert changed.lease, "it was parked after a hundredth of a second"
    await engine.answer(task.id, None, {key: {"action": "accept", "content": {"n": 3}}})
    assert result(await engine.finished(task, PATIENCE)) == {"n": 3, "pid": pid}
