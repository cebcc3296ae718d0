"""Random walks: any events in any order, while the clock runs forward, stands still or is set back."""

from datetime import datetime, timedelta
from typing import NamedTuple

from hypothesis import event as observed
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coatcheck.errors import AlreadyFinished, Refused
from coatcheck.lifecycle import (
    Cancelled,
    Claimed,
    Completed,
    Event,
    Failed,
    HandedOver,
    InputProvided,
    InputRequested,
    InputWithdrawn,
    Noted,
    Recorded,
    Released,
    Renewed,
    Stalled,
    WorkerLost,
    advance,
)
from coatcheck.payload import encode
from coatcheck.task import Failure, InputRequest, Progress, Status, Task
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.lifecycle.invariants import check_change, check_invariants

LEASE = timedelta(seconds=20)
PATIENCE = timedelta(hours=3)
QUESTION = InputRequest(method="elicitation/create", params=encode({}))
KEYS = ("k", "l", "m")
SECONDS = (0, 0, 1, 5, 25, 40 * 60, 4 * 3600, -1, -600, -5 * 3600)
# What keeps a task going comes more often, or most walks would be over before they got anywhere.
LIVELY = (
    *(4 * ("claim", "ask")),
    *(3 * ("answer", "note")),
    *("renew", "hand over", "record", "withdraw", "release", "stall", "lost", "dead"),
)
FINAL = ("complete", "fail", "cancel")


class Step(NamedTuple):
    what: str
    attempt: int
    """Who says it: 0 the holder, 1 one to come, -1 an earlier one."""
    seconds: int
    """By how much the clock moves first."""
    key: str
    number: int


def step(what: st.SearchStrategy[str]) -> st.SearchStrategy[Step]:
    attempts, seconds = st.sampled_from((0, 0, 0, 0, 0, 1, -1)), st.sampled_from(SECONDS)
    return st.builds(Step, what, attempts, seconds, st.sampled_from(KEYS), st.integers(0, 9))


def joined(life: list[Step], end: list[Step]) -> list[Step]:
    return [*life, *end]


def start_of(resumable: bool, expires_at: datetime | None) -> Task:
    return replace(a_task(resumable=resumable), expires_at=expires_at)


LIFE = st.lists(step(st.sampled_from(LIVELY)), min_size=8, max_size=40)
END = st.lists(step(st.sampled_from(FINAL + LIVELY)), max_size=8)
WALKS = st.builds(joined, LIFE, END)
EXPIRIES = (None, NOW + timedelta(minutes=1), NOW + timedelta(hours=1), NOW + timedelta(days=1))
STARTS = st.builds(start_of, st.booleans(), st.sampled_from(EXPIRIES))


def event_of(step: Step, task: Task, now: datetime) -> Event:
    attempt, answer = task.attempt + step.attempt, encode(step.number)
    holder = task.lease.worker if task.lease and step.attempt == 0 else "someone else"
    events: dict[str, Event] = {
        "claim": Claimed(f"w{step.number}", now + LEASE),
        "renew": Renewed(attempt, now + LEASE),
        "hand over": HandedOver(attempt, f"h{step.number}", now + LEASE),
        "note": Noted(attempt, step.key if step.number % 2 else None, Progress(done=step.number)),
        "record": Recorded(attempt, (an_entry(),) * (step.number % 3)),
        "ask": InputRequested(attempt, {step.key: QUESTION}, PATIENCE),
        "withdraw": InputWithdrawn(attempt, (step.key,)),
        "answer": InputProvided({step.key: answer, KEYS[step.number % 3]: answer}),
        "release": Released(attempt),
        "stall": Stalled(now + LEASE / 2),
        "lost": WorkerLost(3, "its lease ran out"),
        "dead": WorkerLost(3, "its process has ended", dead_worker=holder),
        "complete": Completed(attempt, answer, keep=timedelta(minutes=5)),
        "fail": Failed(attempt, Failure(message="no"), keep=timedelta(minutes=5)),
        "cancel": Cancelled("enough", keep=timedelta(minutes=5)),
    }
    return events[step.what]


class Change(NamedTuple):
    before: Task
    event: Event
    after: Task
    at: datetime


def walk(task: Task, steps: list[Step]) -> list[Change]:
    """Return the changes that were accepted."""
    now, changes = NOW, list[Change]()
    for step in steps:
        now += timedelta(seconds=step.seconds)
        event, before = event_of(step, task, now), task
        try:
            task = advance(task, event, now)
        except Refused:
            continue
        changes.append(Change(before, event, task, now))
    observed(f"{len(changes) // 5 * 5} changes or more, then {task.status}")
    return changes


@given(STARTS, WALKS)
@settings(max_examples=80, deadline=None)
def test_every_change_keeps_the_invariants(start: Task, steps: list[Step]) -> None:
    check_invariants(start)
    for before, event, after, _ in walk(start, steps):
        check_change(before, event, after)


@given(STARTS, WALKS)
@settings(max_examples=40, deadline=None)
def test_a_task_ends_at_most_once_and_for_good(start: Task, steps: list[Step]) -> None:
    changes = walk(start, steps)
    endings = [change for change in changes if change.after.status.is_terminal]
    assert endings in ([], changes[-1:])
    for ending in endings:
        for step in steps:
            try:
                advance(ending.after, event_of(step, ending.after, ending.at), ending.at)
            except AlreadyFinished:
                continue
            raise AssertionError(f"{step} changed a task that was {ending.after.status}")


@given(STARTS, WALKS)
@settings(max_examples=40, deadline=None)
def test_asking_a_person_never_costs_the_task_lifetime(start: Task, steps: list[Step]) -> None:
    for before, _, after, _ in walk(start, steps):
        if after.status is Status.INPUT_REQUIRED and before.expires_at is not None:
            assert after.expires_at is not None
            assert after.expires_at >= before.expires_at


@given(STARTS, WALKS)
@settings(max_examples=40, deadline=None)
def test_an_answered_task_has_the_lifetime_left_that_it_had_when_it_asked(start: Task, steps: list[Step]) -> None:
    left = timedelta()
    for before, _, after, at in walk(start, steps):
        if start.expires_at is None:
            assert after.expires_at is None
            continue
        assert before.expires_at is not None
        assert after.expires_at is not None
        was_asking, is_asking = (task.status is Status.INPUT_REQUIRED for task in (before, after))
        if is_asking and not was_asking:
            left = max(before.expires_at - at, timedelta())
            assert after.expires_at - at >= PATIENCE
        elif was_asking and after.status is Status.WORKING:
            assert after.expires_at - at == left
        elif not was_asking and not after.status.is_terminal:
            assert after.expires_at == before.expires_at


@given(STARTS, WALKS)
@settings(max_examples=40, deadline=None)
def test_an_outcome_is_kept_for_a_while_and_never_shorter_than_the_lifetime_left(
    start: Task, steps: list[Step]
) -> None:
    for before, event, after, at in walk(start, steps):
        if after.status.is_terminal and after.expires_at is not None and not isinstance(event, WorkerLost):
            assert after.expires_at - at >= timedelta(minutes=5)
            if before.time_left is not None:
                assert after.expires_at - at >= before.time_left
            elif before.expires_at is not None:
                assert after.expires_at >= before.expires_at


@given(STARTS, WALKS)
@settings(max_examples=40, deadline=None)
def test_an_answered_question_is_never_open_again(start: Task, steps: list[Step]) -> None:
    answered: dict[str, object] = {}
    for _, _, after, _ in walk(start, steps):
        assert not answered.keys() & after.input_requests.keys()
        assert answered.items() <= after.input_responses.items()
        answered = dict(after.input_responses)


@given(STARTS, WALKS)
@settings(max_examples=40, deadline=None)
def test_whoever_holds_the_task_is_the_one_who_took_it_last(start: Task, steps: list[Step]) -> None:
    taken_by: str | None = None
    for _, event, after, _ in walk(start, steps):
        if isinstance(event, Claimed | HandedOver):
            taken_by = event.worker
        assert after.lease is None or after.lease.worker == taken_by
