"""Questions to a person outlive the worker that asked, and so do the answers."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from coatcheck import AlreadyFinished, Engine, Status, Task, Worker
from tests.crash.children import PATIENCE, Children
from tests.crash.conftest import Outcome, Submit, result
from tests.crash.programs import TOOLS, steps_taken

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ANSWER = {"action": "accept", "content": {"n": 42}}
EACH_ONCE = {0: 1, 42: 1}


@pytest.mark.parametrize("is_freed_first", [True, False])
async def test_a_question_whose_asker_was_killed_is_answered_with_nobody_running_and_finished_by_another(
    is_freed_first: bool,
    url: str,
    log: Path,
    engine: Engine,
    children: Children,
    submit: Submit,
    outcome: Outcome,
) -> None:
    task = await submit("ask-resumable")
    asker = await children.start("work", url)
    asked = await question(engine, task)
    await asker.kill()
    if is_freed_first:
        await engine.sweep()
        assert (await engine.get(task.id)).lease is None
    assert (await engine.get(task.id)).input_requests == asked.input_requests
    answered = await engine.answer(task.id, None, dict.fromkeys(asked.input_requests, ANSWER))
    assert (answered.status, answered.input_requests) == (Status.WORKING, {})
    finisher = await children.start("work", url)
    done = await outcome(task)
    assert (done.status, done.attempt, done.losses) == (Status.COMPLETED, 2, 1)
    assert steps_taken(log, task) == EACH_ONCE
    ends = result(done)
    assert (ends["before"]["pid"], ends["after"]["pid"]) == (asker.pid, finisher.pid)


@pytest.mark.parametrize("when", ["before", "during", "after"])
async def test_a_question_is_asked_once_whenever_its_asker_was_killed(
    when: str, url: str, log: Path, engine: Engine, children: Children, submit: Submit, outcome: Outcome
) -> None:
    task = await submit("ask-resumable")
    asker = await children.start("work", url, f"{when}:question:1")
    assert await asker.ended() == -signal.SIGKILL
    async with Worker(engine, TOOLS):
        asked = await question(engine, task)
        await engine.answer(task.id, None, dict.fromkeys(asked.input_requests, ANSWER))
        done = await outcome(task)
    assert (done.status, len(done.input_responses)) == (Status.COMPLETED, 1)
    assert steps_taken(log, task) == EACH_ONCE


async def test_a_question_of_a_tool_that_cannot_be_resumed_fails_with_its_worker(
    url: str, log: Path, engine: Engine, children: Children, submit: Submit, outcome: Outcome
) -> None:
    task = await submit("ask-fragile")
    asker = await children.start("work", url)
    asked = await question(engine, task)
    await asker.kill()
    async with Worker(engine, TOOLS):
        done = await outcome(task)
    assert done.failure
    assert "not resumable" in done.failure.message
    assert done.input_requests == {}
    with pytest.raises(AlreadyFinished):
        await engine.answer(task.id, None, dict.fromkeys(asked.input_requests, ANSWER))
    assert steps_taken(log, task) == {0: 1}


async def test_a_question_stays_open_when_its_asker_is_shut_down(
    url: str, log: Path, engine: Engine, children: Children, submit: Submit, outcome: Outcome
) -> None:
    task = await submit("ask-resumable")
    asker = await children.start("work", url)
    asked = await question(engine, task)
    asker.signal(signal.SIGTERM)
    assert await asker.ended() == 0
    assert (await engine.get(task.id)).input_requests == asked.input_requests
    await engine.answer(task.id, None, dict.fromkeys(asked.input_requests, ANSWER))
    async with Worker(engine, TOOLS):
        done = await outcome(task)
    assert (done.status, done.attempt, done.losses) == (Status.COMPLETED, 2, 0)
    assert steps_taken(log, task) == EACH_ONCE


async def question(engine: Engine, task: Task) -> Task:
    """Wait until the task asks."""
    while task.status is Status.WORKING:
        before, task = task, await engine.wait(task, PATIENCE)
        assert task.updated_at > before.updated_at, f"{task} does not ask"
    return task
