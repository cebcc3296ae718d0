"""What holds for every task, whatever has happened to it, and for every change, whatever caused it."""

from msgspec import UNSET

from coatcheck.lifecycle import Claimed, Event, HandedOver, Recorded, Renewed, WorkerLost
from coatcheck.task import Status, Task


def label(task: Task) -> str:
    """Name the state by who holds the task and what it waits for; `silent` is asking with a stalled lease."""
    if task.status.is_terminal:
        return task.status
    is_asking = task.status is Status.INPUT_REQUIRED
    if task.lease is None:
        return "parked" if is_asking else "waiting"
    if task.lease.is_stalled:
        return "silent" if is_asking else "stalled"
    return "asking" if is_asking else "held"


def check_invariants(task: Task) -> None:
    is_asking = task.status is Status.INPUT_REQUIRED
    assert bool(task.input_requests) == is_asking
    assert (task.time_left is not None) == (is_asking and task.expires_at is not None)
    assert (task.result is not UNSET) == (task.status is Status.COMPLETED)
    assert (task.failure is not None) == (task.status is Status.FAILED)
    assert not (task.status.is_terminal and task.lease)
    assert not task.input_requests.keys() & task.input_responses.keys()
    assert task.attempt > 0 or task.lease is None
    assert task.losses <= task.attempt


def check_change(before: Task, event: Event, after: Task) -> None:
    """What must be true of any accepted event; that it was accepted at all is the table's to say."""
    assert not before.status.is_terminal
    assert after.version == before.version + 1
    assert (after.id, after.owner, after.call, after.created_at) == (
        before.id,
        before.owner,
        before.call,
        before.created_at,
    )
    if not isinstance(event, Renewed):
        assert after.updated_at > before.updated_at
    elif not (before.lease and before.lease.is_stalled):
        assert after.updated_at == before.updated_at
    assert after.attempt == before.attempt + isinstance(event, Claimed | HandedOver)
    assert after.losses == before.losses + isinstance(event, WorkerLost)
    assert after.entries == before.entries + (len(event.entries) if isinstance(event, Recorded) else 0)
    if before.progress is not None:
        assert after.progress is not None
        assert after.progress.done >= before.progress.done
    assert before.input_responses.items() <= after.input_responses.items(), "an answer is final"
    check_invariants(after)
