"""How a task changes: the events, and `advance`, the only code that sets a status.

    working --InputRequested--> input_required --InputProvided--> working
    working | input_required --Completed/Failed/Cancelled--> terminal, for good

Who holds the task (the lease) is independent of its status.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from coatcheck.errors import AlreadyFinished, LeaseLost, Refused
from coatcheck.payload import Payload
from coatcheck.task import NO_ITEMS, Entry, Failure, InputRequest, Lease, Progress, Status, Task

_TICK = timedelta(microseconds=1)
_ZERO = timedelta()


class _Event(msgspec.Struct, frozen=True): ...


class Claimed(_Event, frozen=True):
    worker: str
    until: datetime


class InputProvided(_Event, frozen=True):
    responses: Mapping[str, Payload]


class Cancelled(_Event, frozen=True):
    reason: str | None = None
    keep: timedelta = _ZERO


class Stalled(_Event, frozen=True):
    """The lease ran out; the worker has until `until` to be heard from."""

    until: datetime


class WorkerLost(_Event, frozen=True):
    max_losses: int
    reason: str
    dead_worker: str | None = None
    """A worker known to be dead: its lease need not run out first, but it must be the one that holds the task."""
    keep: timedelta = _ZERO


class WorkerEvent(_Event, frozen=True):
    """Said by whoever works on the task; `attempt` is the claim it speaks for."""

    attempt: int


class Renewed(WorkerEvent, frozen=True):
    until: datetime


class HandedOver(WorkerEvent, frozen=True):
    """Said by the process that the holder started for the task: from now on it is the holder itself."""

    worker: str
    until: datetime


class Noted(WorkerEvent, frozen=True):
    message: str | None = None
    progress: Progress | None = None


class Recorded(WorkerEvent, frozen=True):
    entries: Sequence[Entry]


class InputRequested(WorkerEvent, frozen=True):
    requests: Mapping[str, InputRequest]
    patience: timedelta
    """How long the question may stay open, however little lifetime is left."""


class InputWithdrawn(WorkerEvent, frozen=True):
    keys: Collection[str]


class Released(WorkerEvent, frozen=True):
    """Given back unfinished, for any worker to run again."""


class Completed(WorkerEvent, frozen=True):
    result: Payload
    is_error: bool = False
    keep: timedelta = _ZERO
    """At least how long the outcome is kept from now on."""


class Failed(WorkerEvent, frozen=True):
    failure: Failure
    keep: timedelta = _ZERO


Event = Claimed | InputProvided | Cancelled | Stalled | WorkerLost | WorkerEvent


def advance(task: Task, event: Event, now: datetime) -> Task:
    """Return the task as it is after `event`.

    Raises:
        AlreadyFinished: The task is terminal.
        LeaseLost: A worker reports on a task it no longer holds.
        Refused: The event makes no sense in this state.
    """
    if task.status.is_terminal:
        raise AlreadyFinished(task.id, task.status)
    is_visible = not isinstance(event, Renewed)
    if isinstance(event, WorkerEvent):
        if task.lease is None or task.attempt != event.attempt:
            raise LeaseLost(f"Attempt {event.attempt} no longer holds task {task.id}")
        if task.lease.is_stalled:
            task, is_visible = _heard_from(task, task.lease), True
    changes = _changes(task, event, now)
    if is_visible:
        changes["updated_at"] = max(now, task.updated_at + _TICK)
    return msgspec.structs.replace(task, version=task.version + 1, **changes)


def _changes(task: Task, event: Event, now: datetime) -> dict[str, Any]:
    match event:
        case Claimed(worker, until):
            if not task.is_waiting:
                raise Refused(f"Task {task.id} is not waiting for a worker")
            return {"lease": Lease(worker=worker, until=until), "attempt": task.attempt + 1}
        case Renewed(_, until):
            assert task.lease is not None
            return {"lease": Lease(worker=task.lease.worker, until=until)}
        case HandedOver(_, worker, until):
            return {"lease": Lease(worker=worker, until=until), "attempt": task.attempt + 1}
        case Noted(_, message, progress):
            return {"status_message": message or task.status_message, "progress": furthest(task.progress, progress)}
        case Recorded(_, entries):
            size = task.journal_size + sum(entry.size for entry in entries)
            return {"entries": task.entries + len(entries), "journal_size": size}
        case InputRequested(_, requests, patience):
            return _asked(task, requests, patience, now)
        case InputWithdrawn(_, keys):
            return _fewer_questions(task, keys, now)
        case InputProvided(responses):
            # Unknown and already answered keys are ignored, as both protocol generations ask.
            known = {key: value for key, value in responses.items() if key in task.input_requests}
            return {"input_responses": {**task.input_responses, **known}, **_fewer_questions(task, known, now)}
        case Released():
            if not task.resumable:
                raise Refused(f"Task {task.id} is not resumable, so it cannot be handed to another worker")
            return {"lease": None}
        case Completed(_, result, is_error, keep):
            return {"result": result, "is_error": is_error, **_ended(task, Status.COMPLETED, keep, now)}
        case Failed(_, failure, keep):
            return {"failure": failure, **_ended(task, Status.FAILED, keep, now)}
        case Cancelled(reason, keep):
            return {"status_message": reason, **_ended(task, Status.CANCELLED, keep, now)}
        case Stalled(until):
            return _stalled(task, until, now)
        case WorkerLost():
            return _lost(task, event, now)
        case _:
            raise TypeError(f"{type(event).__name__} is not an event")


def furthest(before: Progress | None, now: Progress | None) -> Progress | None:
    """Progress never runs backwards, not even when work is run again."""
    if before is None or now is None:
        return now or before
    return before if now.done < before.done else now


def _asked(task: Task, requests: Mapping[str, InputRequest], patience: timedelta, now: datetime) -> dict[str, Any]:
    reused = requests.keys() & (task.input_requests.keys() | task.input_responses.keys())
    if reused or not requests:
        raise Refused(f"Input request keys must be new: {sorted(reused)}")
    changes = {"status": Status.INPUT_REQUIRED, "input_requests": {**task.input_requests, **requests}}
    if task.expires_at is None:
        return changes
    left = max(task.expires_at - now, _ZERO) if task.time_left is None else task.time_left
    return {**changes, "time_left": left, "expires_at": max(task.expires_at, now + patience)}


def _fewer_questions(task: Task, keys: Collection[str], now: datetime) -> dict[str, Any]:
    still_open = {key: value for key, value in task.input_requests.items() if key not in keys}
    if still_open:
        return {"input_requests": still_open}
    return {"status": Status.WORKING, "input_requests": NO_ITEMS, **_lifetime_runs_on(task, now)}


def _lifetime_runs_on(task: Task, now: datetime) -> dict[str, Any]:
    return {} if task.time_left is None else {"expires_at": now + task.time_left, "time_left": None}


def _ended(task: Task, status: Status, keep: timedelta, now: datetime) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "status": status,
        "lease": None,
        "input_requests": NO_ITEMS,
        **_lifetime_runs_on(task, now),
    }
    expires_at: datetime | None = changes.get("expires_at", task.expires_at)
    return changes if expires_at is None else {**changes, "expires_at": max(expires_at, now + keep)}


def _stalled(task: Task, until: datetime, now: datetime) -> dict[str, Any]:
    lease = _late_lease(task, now)
    message = f"Stalled: its worker has not renewed its lease, which ran out at {lease.until:%H:%M:%S} UTC"
    stalled = Lease(worker=lease.worker, until=until, is_stalled=True, said=task.status_message)
    return {"lease": stalled, "status_message": message}


def _heard_from(task: Task, lease: Lease) -> Task:
    """Whatever a stalled worker says, it lives: the task goes on as if nothing had been."""
    running = Lease(worker=lease.worker, until=lease.until)
    return msgspec.structs.replace(task, lease=running, status_message=lease.said)


def _lost(task: Task, event: WorkerLost, now: datetime) -> dict[str, Any]:
    is_proven = task.lease is not None and task.lease.worker == event.dead_worker
    if not is_proven:
        _late_lease(task, now)
    losses = task.losses + 1
    reason = f"Its worker was lost ({event.reason})"
    if task.resumable and losses < event.max_losses:
        # Open questions stay open: the answer may come while nobody holds the task.
        return {"lease": None, "losses": losses, "status_message": f"{reason}; the task is resumed by another"}
    advice = f"it was lost {losses} times" if task.resumable else "the tool is not resumable, so it was not run again"
    failure = Failure(message=f"{reason} and {advice}")
    return {"failure": failure, "losses": losses, **_ended(task, Status.FAILED, event.keep, now)}


def _late_lease(task: Task, now: datetime) -> Lease:
    if task.lease is None or task.lease.until > now:
        raise Refused(f"Task {task.id} still has its worker" if task.lease else f"Task {task.id} has no worker")
    return task.lease
