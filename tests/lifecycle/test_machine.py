"""Clients, workers and the sweep take turns on a real engine, checked against what each of them was told."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from coatcheck import Engine, Policy, Terms, open_store
from coatcheck.errors import AlreadyFinished, LeaseLost, Refused, TaskNotFound
from coatcheck.lifecycle import (
    Completed,
    Failed,
    HandedOver,
    InputRequested,
    InputWithdrawn,
    Noted,
    Recorded,
    Released,
    Renewed,
    WorkerEvent,
)
from coatcheck.liveness import name_worker
from coatcheck.payload import encode
from coatcheck.task import Failure, InputRequest, Progress, Status, Task
from coatcheck.testing.builders import an_entry
from tests.clock import Clock
from tests.lifecycle.invariants import check_invariants

Answer = TypeVar("Answer")
OWNERS = ("ann", "bob", None)
HOST, PID, STARTED, SPACE, SALT = name_worker().split(":")
DEAD = f"{HOST}:{PID}:{int(STARTED) + 1}:{SPACE}:{SALT}"
"""A worker that had our pid before us."""
WORKERS = ("w", "v", DEAD)
POLICY = Policy(allows_unlimited_ttl=True, quota=None, max_losses=2)
QUESTION = InputRequest(method="elicitation/create", params=encode({}))
TERMS = st.sampled_from(
    [Terms(ttl=ttl, resumable=resumable) for ttl in (60, 3600, None) for resumable in (True, False)]
)
NUMBERS = st.integers(0, 9)
KEYS = st.sampled_from(("k", "l"))
REPORTS = st.sampled_from(
    ("renew", "hand over", "note", "record", "ask", "ask", "withdraw", "release", "complete", "fail")
)


def report_of(what: str, key: str, task: Task, clock: Clock) -> WorkerEvent:
    said: dict[str, WorkerEvent] = {
        "renew": Renewed(task.attempt, clock() + POLICY.lease),
        "hand over": HandedOver(task.attempt, "h", clock() + POLICY.lease),
        "note": Noted(task.attempt, key, Progress(done=task.version)),
        "record": Recorded(task.attempt, (an_entry(),)),
        "ask": InputRequested(task.attempt, {key: QUESTION}, POLICY.patience),
        "withdraw": InputWithdrawn(task.attempt, (key,)),
        "release": Released(task.attempt),
        "complete": Completed(task.attempt, encode([key, task.attempt]), keep=POLICY.retention),
        "fail": Failed(task.attempt, Failure(message=key), POLICY.retention),
    }
    return said[what]


def pick(tasks: Sequence[Task], number: int) -> Task:
    return tasks[number % len(tasks)]


class EngineMachine(RuleBasedStateMachine):
    """The model is what the engine has said: the last it told of each task, and how each of them ended."""

    claims = Bundle[Task]("claims")
    keeps_files = False

    def __init__(self) -> None:
        super().__init__()
        self.runner, self.open, self.clock = asyncio.Runner(), AsyncExitStack(), Clock()
        url = "memory://"
        if self.keeps_files:
            url = f"sqlite:///{self.open.enter_context(TemporaryDirectory())}/tasks.db"
        self.engine = Engine(self.run(self.open.enter_async_context(open_store(url))), POLICY, self.clock)
        self.told: dict[str, Task] = {}
        self.endings: dict[str, Task] = {}

    def teardown(self) -> None:
        self.run(self.open.aclose())
        self.runner.close()

    def run(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        return self.runner.run(call)

    def hear(self, task: Task) -> None:
        check_invariants(task)
        if known := self.told.get(task.id):
            assert task.version >= known.version
        if ending := self.endings.get(task.id):
            assert task == ending, "an outcome is final"
        elif task.status.is_terminal:
            self.endings[task.id] = task
        self.told[task.id] = task

    def is_expired(self, task: Task) -> bool:
        return task.expires_at is not None and task.expires_at <= self.clock()

    # Clients

    @rule(owner=st.sampled_from(OWNERS), terms=TERMS)
    def submit(self, owner: str | None, terms: Terms) -> None:
        self.submitted(owner, terms, None)

    @rule(target=claims, owner=st.sampled_from(OWNERS), terms=TERMS, worker=st.sampled_from(WORKERS))
    def submit_to_a_worker(self, owner: str | None, terms: Terms, worker: str) -> Task:
        return self.submitted(owner, terms, worker)

    def submitted(self, owner: str | None, terms: Terms, worker: str | None) -> Task:
        self.clock.turn(milliseconds=1)  # ids are random: let the order of tasks not depend on them
        task = self.run(self.engine.submit("slow", owner=owner, terms=terms, claimed_by=worker))
        assert task.id not in self.told
        self.hear(task)
        return task

    @precondition(lambda self: self.told)
    @rule(number=NUMBERS, key=KEYS, value=NUMBERS)
    def answer(self, number: int, key: str, value: int) -> None:
        asking = [task for task in self.told.values() if task.input_requests]
        before = pick(asking or list(self.told.values()), number)
        try:
            task = self.run(self.engine.answer(before.id, before.owner, {key: value}))
        except AlreadyFinished:
            assert before.id in self.endings
        except TaskNotFound:
            assert self.is_expired(before)
        else:
            taken = {key: encode(value)} if key in before.input_requests else {}
            assert task.input_responses == {**before.input_responses, **taken}
            self.hear(task)

    @precondition(lambda self: self.told)
    @rule(number=NUMBERS)
    def cancel(self, number: int) -> None:
        task = pick(list(self.told.values()), number)
        try:
            self.hear(self.run(self.engine.cancel(task.id, task.owner)))
        except AlreadyFinished:
            assert task.id in self.endings
        except TaskNotFound:
            assert self.is_expired(task)
        else:
            assert self.endings[task.id].status is Status.CANCELLED

    @precondition(lambda self: self.told)
    @rule(number=NUMBERS, stranger=st.sampled_from((*OWNERS, "eve")))
    def pry(self, number: int, stranger: str | None) -> None:
        task = pick(list(self.told.values()), number)
        if stranger == task.owner:
            return
        for verb in (self.engine.get, self.engine.cancel, self.engine.journal):
            with pytest.raises(TaskNotFound):
                self.run(verb(task.id, stranger))
        with pytest.raises(TaskNotFound):
            self.run(self.engine.answer(task.id, stranger, {"k": 1}))
        assert task.id not in {listed.id for listed in self.run(self.engine.list(stranger))}

    # Workers

    @rule(target=claims, worker=st.sampled_from(WORKERS), limit=st.integers(1, 3))
    def claim(self, worker: str, limit: int) -> MultipleResults[Task]:
        offered = self.run(self.engine.waiting({"slow"}, limit=limit, timeout=0))
        claimed = self.run(self.engine.claim(offered, worker))
        assert len(claimed) == len(offered), "nobody else was there"
        for task in claimed:
            assert task.id not in self.endings
            assert task.attempt == self.told[task.id].attempt + 1
            self.hear(task)
        return multiple(*claimed)

    @rule(task=claims, what=REPORTS, key=KEYS)
    def report(self, task: Task, what: str, key: str) -> None:
        """The claim may be long past: then nothing it says may count."""
        before = self.told[task.id]
        holds = before.lease is not None and before.attempt == task.attempt
        try:
            changed = self.run(self.engine.report(task, report_of(what, key, task, self.clock)))
        except AlreadyFinished:
            assert task.id in self.endings
        except LeaseLost:
            assert not holds
        except TaskNotFound:
            assert self.is_expired(before)
        except Refused:
            assert what in ("ask", "release")
        else:
            assert holds
            self.hear(changed)

    # Time

    @rule(seconds=st.sampled_from((1, 15, 25, 70, 2400, 8 * 86400)))
    def turn_the_clock(self, seconds: int) -> None:
        self.clock.turn(seconds=seconds)

    @rule()
    def sweep(self) -> None:
        self.run(self.engine.sweep())
        for task in list(self.told.values()):
            if not self.is_expired(task):
                fresh = self.run(self.engine.get(task.id, task.owner))
                assert fresh.lease is None or (fresh.lease.worker != DEAD and fresh.lease.until > self.clock())

    @invariant()
    def every_acknowledged_task_is_there_until_it_expires(self) -> None:
        for task in list(self.told.values()):
            try:
                self.hear(self.run(self.engine.get(task.id, task.owner)))
            except TaskNotFound:
                assert self.is_expired(task)
            else:
                assert not self.is_expired(self.told[task.id])


class FileMachine(EngineMachine):
    keeps_files = True


def play(machine: type[EngineMachine], *, games: int) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=games, stateful_step_count=40, deadline=None))


def test_a_quickly_turning_clock_and_careless_workers_break_no_promise_in_memory() -> None:
    play(EngineMachine, games=15)


@pytest.mark.slow
def test_a_quickly_turning_clock_and_careless_workers_break_no_promise_in_memory_in_the_long_run() -> None:
    play(EngineMachine, games=80)


@pytest.mark.slow
def test_a_quickly_turning_clock_and_careless_workers_break_no_promise_in_a_file() -> None:
    play(FileMachine, games=25)
