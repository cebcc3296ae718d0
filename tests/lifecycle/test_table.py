"""Every event meets every state: the whole table, cell by cell."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import pytest

from coatcheck.errors import LeaseLost, Refused
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
from coatcheck.task import Failure, InputRequest, Progress, Task
from coatcheck.testing.builders import NOW, a_task, an_entry
from tests.lifecycle.invariants import check_change, check_invariants, label

UNTIL = NOW + timedelta(seconds=20)
GRACE = NOW + timedelta(seconds=30)
LATE = NOW + timedelta(minutes=1)
"""Past every lease."""
PATIENCE = timedelta(days=7)
QUESTION = InputRequest(method="elicitation/create", params=encode({"message": "Sure?"}))


def after(task: Task, *events: Event) -> Task:
    for event in events:
        before, task = task, advance(task, event, UNTIL if isinstance(event, Stalled) else NOW)
        check_change(before, event, task)
    return task


def path_to(state: str, attempt: int) -> Sequence[Event]:
    """Return what brings a waiting task into a state, by its claim number `attempt`."""
    claim, stall = Claimed("w", UNTIL), Stalled(GRACE)
    ask = InputRequested(attempt, {"name": QUESTION}, PATIENCE)
    paths: dict[str, Sequence[Event]] = {
        "waiting": (),
        "held": (claim,),
        "stalled": (claim, stall),
        "asking": (claim, ask),
        "silent": (claim, ask, stall),
        "parked": (claim, ask, Released(attempt)),
        "completed": (claim, Completed(attempt, encode({}))),
        "failed": (claim, Failed(attempt, Failure(message="no"))),
        "cancelled": (Cancelled(),),
    }
    return paths[state]


def a_task_that_is(state: str, *, resumable: bool = True, attempt: int = 1) -> Task:
    task = a_task(resumable=resumable)
    for earlier in range(1, attempt):
        task = after(task, Claimed("v", UNTIL), Released(earlier))
    return after(task, *path_to(state, attempt))


def events_of(attempt: int) -> Mapping[str, tuple[Event, datetime]]:
    """Every event, and the moment it happens."""
    return {
        "claim": (Claimed("v", LATE + PATIENCE), NOW),
        "renew": (Renewed(attempt, LATE), NOW),
        "hand over": (HandedOver(attempt, "v", LATE), NOW),
        "note": (Noted(attempt, "half", Progress(done=1, total=2)), NOW),
        "record": (Recorded(attempt, (an_entry(), an_entry())), NOW),
        "ask": (InputRequested(attempt, {"age": QUESTION}, PATIENCE), NOW),
        "withdraw": (InputWithdrawn(attempt, ("name",)), NOW),
        "answer": (InputProvided({"name": encode({})}), NOW),
        "release": (Released(attempt), NOW),
        "complete": (Completed(attempt, encode({})), NOW),
        "fail": (Failed(attempt, Failure(message="no")), NOW),
        "cancel": (Cancelled("never mind"), NOW),
        "early stall": (Stalled(LATE), NOW),
        "stall": (Stalled(LATE), LATE),
        "early lost": (WorkerLost(3, "its lease ran out"), NOW),
        "lost": (WorkerLost(3, "its lease ran out"), LATE),
        "dead": (WorkerLost(3, "its process has ended", dead_worker="w"), NOW),
    }


RESUMABLE = """
            waiting    held       stalled    asking     silent     parked
claim       held       Refused    Refused    Refused    Refused    Refused
renew       LeaseLost  held       held       asking     asking     LeaseLost
hand_over   LeaseLost  held       held       asking     asking     LeaseLost
note        LeaseLost  held       held       asking     asking     LeaseLost
record      LeaseLost  held       held       asking     asking     LeaseLost
ask         LeaseLost  asking     asking     asking     asking     LeaseLost
withdraw    LeaseLost  held       held       held       held       LeaseLost
answer      waiting    held       stalled    held       stalled    waiting
release     LeaseLost  waiting    waiting    parked     parked     LeaseLost
complete    LeaseLost  completed  completed  completed  completed  LeaseLost
fail        LeaseLost  failed     failed     failed     failed     LeaseLost
cancel      cancelled  cancelled  cancelled  cancelled  cancelled  cancelled
early_stall Refused    Refused    Refused    Refused    Refused    Refused
stall       Refused    stalled    stalled    silent     silent     Refused
early_lost  Refused    Refused    Refused    Refused    Refused    Refused
lost        Refused    waiting    waiting    parked     parked     Refused
dead        Refused    waiting    waiting    parked     parked     Refused
"""
# Without the right to be run again, a task can be neither given back nor taken over, so it never is parked.
NOT_RESUMABLE = """
            waiting    held       stalled    asking     silent
claim       held       Refused    Refused    Refused    Refused
renew       LeaseLost  held       held       asking     asking
hand_over   LeaseLost  held       held       asking     asking
note        LeaseLost  held       held       asking     asking
record      LeaseLost  held       held       asking     asking
ask         LeaseLost  asking     asking     asking     asking
withdraw    LeaseLost  held       held       held       held
answer      waiting    held       stalled    held       stalled
release     LeaseLost  Refused    Refused    Refused    Refused
complete    LeaseLost  completed  completed  completed  completed
fail        LeaseLost  failed     failed     failed     failed
cancel      cancelled  cancelled  cancelled  cancelled  cancelled
early_stall Refused    Refused    Refused    Refused    Refused
stall       Refused    stalled    stalled    silent     silent
early_lost  Refused    Refused    Refused    Refused    Refused
lost        Refused    failed     failed     failed     failed
dead        Refused    failed     failed     failed     failed
"""
TERMINAL = ("completed", "failed", "cancelled")
EVENTS = events_of(1)
WORKER_EVENTS = ("renew", "hand over", "note", "record", "ask", "withdraw", "release", "complete", "fail")
HELD = ("held", "stalled", "asking", "silent")
UNHELD = ("waiting", "parked")


def cells(kind: str, table: str) -> list[tuple[str, str, str, str]]:
    head, *rows = (line.split() for line in table.strip().splitlines())
    live = [(kind, s, row[0].replace("_", " "), want) for row in rows for s, want in zip(head, row[1:], strict=True)]
    return live + [(kind, state, event, "AlreadyFinished") for state in TERMINAL for event in EVENTS]


CELLS = cells("resumable", RESUMABLE) + cells("not resumable", NOT_RESUMABLE)


def outcome(task: Task, event: Event, at: datetime) -> Task | str:
    """Return the changed task, or the name of the refusal."""
    try:
        return advance(task, event, at)
    except Refused as refusal:
        return type(refusal).__name__


@pytest.mark.parametrize(("kind", "state", "event", "want"), CELLS, ids=[" ".join(cell) for cell in CELLS])
def test_every_event_in_every_state(kind: str, state: str, event: str, want: str) -> None:
    before, (said, at) = a_task_that_is(state, resumable=kind == "resumable"), EVENTS[event]
    assert label(before) == state
    got = outcome(before, said, at)
    if isinstance(got, Task):
        check_change(before, said, got)
    assert (label(got) if isinstance(got, Task) else got) == want


def test_the_table_leaves_no_cell_out() -> None:
    filled = {(kind, state, event) for kind, state, event, _ in CELLS}
    states = {"resumable": (*HELD, *UNHELD, *TERMINAL), "not resumable": (*HELD, "waiting", *TERMINAL)}
    assert filled == {(kind, state, event) for kind in states for state in states[kind] for event in EVENTS}


@pytest.mark.parametrize("event", WORKER_EVENTS)
@pytest.mark.parametrize("state", HELD)
def test_a_report_by_an_earlier_attempt_is_refused(state: str, event: str) -> None:
    task = a_task_that_is(state, attempt=2)
    assert (label(task), task.attempt) == (state, 2)
    said, at = events_of(1)[event]
    with pytest.raises(LeaseLost, match="Attempt 1 no longer holds task a"):
        advance(task, said, at)


@pytest.mark.parametrize("event", WORKER_EVENTS)
@pytest.mark.parametrize("state", HELD)
def test_a_report_by_an_attempt_that_never_was_is_refused(state: str, event: str) -> None:
    said, at = events_of(3)[event]
    with pytest.raises(LeaseLost, match="Attempt 3"):
        advance(a_task_that_is(state, attempt=2), said, at)


@pytest.mark.parametrize("state", HELD)
def test_the_death_of_another_worker_takes_nothing_from_this_one(state: str) -> None:
    with pytest.raises(Refused, match="still has its worker"):
        advance(a_task_that_is(state), WorkerLost(3, "its process has ended", dead_worker="v"), NOW)


@pytest.mark.parametrize("state", HELD)
def test_a_late_lease_is_lost_whoever_else_has_died(state: str) -> None:
    lost = advance(a_task_that_is(state), WorkerLost(3, "its process has ended", dead_worker="v"), LATE)
    assert lost.lease is None
    check_invariants(lost)


@pytest.mark.parametrize("state", HELD)
def test_who_handed_a_task_over_holds_it_no_longer(state: str) -> None:
    given = after(a_task_that_is(state), HandedOver(1, "v", LATE))
    assert given.lease is not None
    assert (given.lease.worker, given.lease.until, given.attempt, given.losses) == ("v", LATE, 2, 0)
    for event in WORKER_EVENTS:
        with pytest.raises(LeaseLost, match="Attempt 1"):
            advance(given, *EVENTS[event])
    assert after(given, Completed(2, encode("done"))).status == "completed"


def test_a_task_that_lost_all_the_workers_it_may_lose_fails_with_the_reason() -> None:
    task = a_task(resumable=True)
    for nth in (1, 2, 3):
        assert label(task) == "waiting"
        task = after(task, Claimed(f"w{nth}", UNTIL))
        task = after(task, WorkerLost(3, "its process has ended", dead_worker=f"w{nth}"))
    assert label(task) == "failed"
    assert task.failure is not None
    assert "lost (its process has ended) and it was lost 3 times" in task.failure.message


def test_a_task_that_may_not_be_run_again_fails_with_its_first_worker_and_says_why() -> None:
    lost = advance(a_task_that_is("held", resumable=False), WorkerLost(3, "its lease ran out"), LATE)
    assert lost.failure is not None
    assert "lost (its lease ran out) and the tool is not resumable, so it was not run again" in lost.failure.message


def test_a_stalled_task_says_since_when_its_worker_is_silent() -> None:
    message = a_task_that_is("stalled").status_message or ""
    assert message.startswith("Stalled: ")
    assert message.endswith("ran out at 00:00:20 UTC")


def test_a_worker_that_is_heard_from_again_is_news_to_the_caller() -> None:
    stalled = a_task_that_is("stalled")
    renewed = advance(stalled, *EVENTS["renew"])
    assert renewed.status_message != stalled.status_message
    assert renewed.updated_at > stalled.updated_at, "or nobody who watches would be told that all is well again"


def test_a_heartbeat_does_not_wipe_out_what_the_worker_has_noted_meanwhile() -> None:
    noted = advance(a_task_that_is("stalled"), *EVENTS["note"])
    assert noted.status_message == "half"
    assert advance(noted, *EVENTS["renew"]).status_message == "half"


@pytest.mark.parametrize("state", HELD)
def test_progress_never_runs_backwards(state: str) -> None:
    far = after(a_task_that_is(state), Noted(1, None, Progress(done=5, total=9)))
    back = after(far, Noted(1, "once more", Progress(done=3, total=9)))
    assert (back.progress, back.status_message) == (Progress(done=5, total=9), "once more")
    further = after(back, Noted(1, None, Progress(done=5, total=20)))
    assert (further.progress, further.status_message) == (Progress(done=5, total=20), "once more")


@pytest.mark.parametrize("requests", [{}, {"name": QUESTION}, {"name": QUESTION, "age": QUESTION}])
def test_a_question_needs_a_key_of_its_own(requests: Mapping[str, InputRequest]) -> None:
    with pytest.raises(Refused, match="must be new"):
        advance(a_task_that_is("asking"), InputRequested(1, requests, PATIENCE), NOW)


def test_an_answered_question_cannot_be_asked_again() -> None:
    answered = after(a_task_that_is("asking"), InputProvided({"name": encode("Ann")}))
    with pytest.raises(Refused, match="name"):
        advance(answered, InputRequested(1, {"name": QUESTION}, PATIENCE), NOW)


def test_only_what_was_asked_is_answered_and_only_once() -> None:
    asked = after(a_task_that_is("asking"), InputRequested(1, {"age": QUESTION}, PATIENCE))
    once = after(asked, InputProvided({"name": encode("Ann"), "unknown": encode(1)}))
    assert label(once) == "asking"
    twice = after(once, InputProvided({"name": encode("Bob"), "age": encode(7)}))
    assert label(twice) == "held"
    assert twice.input_responses == {"name": encode("Ann"), "age": encode(7)}
