"""The servers these tests kill: what their tools have done stands in a file, and a gate tells when to go on."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from coatcheck import Policy
from coatcheck.server import TaskContext, TaskPolicy, TaskServer
from tests.client_faults.gate import visit

BEGAN, ANSWERED, WORKING = "began", "answered", "working"
_RESUMABLE = TaskPolicy("required", resumable=True, poll_interval=0.05)
_VALUE = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}


async def work(log: str, gate: int, task: TaskContext) -> list[int]:
    """Take three steps; it can be stopped after the second."""
    _write(log, BEGAN, task.task.id)
    await visit(gate, BEGAN)
    done: list[int] = []
    for number in range(3):
        if number == 2:
            await visit(gate, WORKING)
        done.append(await task.step(f"{number}", _take, log, number))
    return done


async def interview(log: str, gate: int, questions: list[str], task: TaskContext) -> list[str]:
    """Take a step, ask one question after the other, take another step; return the answers."""
    _write(log, BEGAN, task.task.id)
    await visit(gate, BEGAN)
    await task.step("before", _take, log, 0)
    answers: list[str] = []
    for question in questions:
        answer = await task.elicit(question, _VALUE)
        answers.append(answer["content"]["value"])
        await visit(gate, ANSWERED)
    await visit(gate, WORKING)
    await task.step("after", _take, log, 1)
    return answers


def _take(log: str, number: int) -> int:
    _write(log, "step", str(number))
    return number


def _write(log: str, *words: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{' '.join(words)}\n".encode())
    finally:
        os.close(descriptor)


def _build(name: str, **options: Any) -> TaskServer:
    policy = Policy(lease=timedelta(seconds=2), max_losses=100)
    server = TaskServer(name, version="1", policy=policy, grace=0.1, **options)
    server.add_tool(work, task=_RESUMABLE)
    server.add_tool(interview, task=_RESUMABLE)
    return server


bound = _build("bound")
unbound = _build("unbound", bind_sessions=False)
