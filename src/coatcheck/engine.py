"""What can be asked of tasks. One verb is one event is one write."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from coatcheck import answers, limits
from coatcheck.children import cancel_children, stay_with
from coatcheck.creation import call_of, new_task
from coatcheck.errors import IdempotencyConflict, InvalidArgument, Refused, TaskNotFound
from coatcheck.ids import Ids
from coatcheck.lifecycle import (
    Cancelled,
    Claimed,
    Event,
    InputProvided,
    Recorded,
    Stalled,
    WorkerEvent,
    WorkerLost,
    advance,
)
from coatcheck.liveness import interrupt, is_dead
from coatcheck.payload import Payload, canonical, encode
from coatcheck.policy import Policy, Terms
from coatcheck.store import EVERYONE, Query, Store
from coatcheck.task import NOTHING, Entry, Position, Status, Task, is_family

_BATCH = 100
_LAST_SECONDS = 5.0
"""For a process that was told to end and has a grace of its own, before it is ended from here."""
_UNFINISHED = (Status.WORKING, Status.INPUT_REQUIRED)


def utc_now() -> datetime:
    return datetime.now(UTC)


class Engine:
    """Clients submit and ask, workers claim and report, a timer sweeps."""

    def __init__(self, store: Store, policy: Policy = Policy(), clock: Callable[[], datetime] = utc_now) -> None:
        self.store = self._store = store
        self.policy, self.clock = policy, clock
        self._ids = Ids()

    # For clients

    async def submit(
        self,
        tool: str,
        arguments: Mapping[str, Any] | Payload = NOTHING,
        *,
        owner: str | None = None,
        terms: Terms = Terms(),
        idempotency_key: str | None = None,
        meta: Mapping[str, Any] | Payload = NOTHING,
        identity: Mapping[str, Any] | None = None,
        claimed_by: str | None = None,
        task_id: str | None = None,
        parent: Task | None = None,
    ) -> Task:
        """Make a task of a tool call, durable when this returns, and waiting for a worker unless `claimed_by` one.

        `identity` is kept with the task for tools that act on their caller's behalf. `task_id` is one of `new_id`, for
        who has to know it before it is written. `parent` is the task whose work makes this one: it is the owner then.

        Raises:
            InvalidArgument: Something that cannot be used, or a wish that cannot be met.
            TooLarge: The arguments, or what else is kept of the call, have too many bytes.
            IdempotencyConflict: The key stands for another call of this owner.
            QuotaExceeded: The owner, or all callers without one, have too many unfinished tasks.
            AlreadyFinished: The parent was cancelled, and so is what it made.
        """
        if parent:
            owner = parent.as_owner
        elif isinstance(owner, str) and is_family(owner):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgument(f"No owner may be called {owner!r:.60}: so are those of children; pass their parent.")
        call = call_of(tool, terms.version, arguments, meta, identity)
        now = self.clock()
        task = new_task(task_id or self.new_id(), owner, call, idempotency_key, terms, self.policy, now)
        if claimed_by:
            task = advance(task, Claimed(claimed_by, now + self.policy.lease), now)
        quota = self._quota(owner, parent)
        kept = await self._store.insert(task, quota=quota)
        task = task if kept.id == task.id else await self._settle_key(task, kept, quota)
        if parent:
            await stay_with(self, parent, task)
        return task

    def new_id(self) -> str:
        return self._ids.new()

    async def get(self, task_id: str, owner: str | None = None) -> Task:
        now = self.clock()
        return self._visible(task_id, owner, await self._store.get(task_id, owner=owner, alive_at=now), now)

    async def list(self, owner: str | None = None, *, after: Position | None = None, limit: int = 50) -> Sequence[Task]:
        """Return the owner's tasks, newest first; `after` is the `position` of the last one seen."""
        _check_limit(limit)
        found: list[Task] = []
        while len(found) < limit:
            page = await self._store.list(Query(owner=owner, after=after, limit=limit - len(found)))
            if not page:
                break
            found += [task for task in page if not self._is_expired(task)]
            after = page[-1].position
        return found

    async def wait(self, task: Task, timeout: float) -> Task:
        """Return the task once it has changed for its caller since `task`, or as it is after `timeout` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        version = task.version
        while True:
            left = max(0.0, deadline - loop.time())
            kept = await self._store.get(
                task.id, owner=task.owner, alive_at=self.clock(), newer_than=version, timeout=left
            )
            fresh = self._visible(task.id, task.owner, kept, self.clock())
            if fresh.updated_at > task.updated_at or loop.time() >= deadline:
                return fresh
            version = fresh.version
            del kept, fresh  # or thousands of waiting callers would keep a second copy of each task

    def newer(self, task: Task, timeout: float) -> Awaitable[Task | None]:
        """Return the row once anything has changed it since `task`, or as it is after `timeout` seconds.

        For workers, thousands of which may wait: no coroutine of its own.
        """
        return self._store.get(task.id, newer_than=task.version, timeout=timeout)

    async def finished(self, task: Task, timeout: float = 3600) -> Task:
        """Return the task once it is terminal, or as it is after `timeout` seconds. The task runs on either way."""
        return await self._wait_while(_UNFINISHED, task, timeout)

    async def settled(self, task: Task, timeout: float) -> Task:
        """Return the task once it is terminal or asks something, or as it is after `timeout` seconds."""
        return await self._wait_while((Status.WORKING,), task, timeout)

    async def forget(self, task: Task) -> None:
        """Drop the task, if nothing has changed it since `task`: for callers that have all they want of it."""
        await self._store.delete(task)

    async def answer(
        self, task_id: str, owner: str | None, responses: Mapping[str, Any], *, is_final: bool = False
    ) -> Task:
        """Deliver input; the task goes on once nothing is outstanding. Keys that are not open are ignored.

        `is_final`: whoever answered is not there to be told that an answer does not fit; work that judges answers
        itself gets it then.

        Raises:
            InvalidAnswer: One does not fit its question. None of them was taken, all questions stay open.
            TooLarge: One has too many bytes, with the same consequence.
            AlreadyFinished: The task is terminal.
        """
        if not isinstance(responses, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgument(
                f"Answers must be a mapping of question keys to answers, not {type(responses).__name__}."
            )
        task = await self.get(task_id, owner)
        fitting = {key: encode(value) for key, value in responses.items() if key in task.input_requests}
        for key, answer in fitting.items():
            limits.check_answer(key, answer, self.policy)
            if not (is_final and task.input_requests[key].judges_itself):
                answers.check(key, task.input_requests[key], answer)
        return await self._apply(task, InputProvided(fitting)) if fitting or task.status.is_terminal else task

    async def answer_with_error(
        self, task_id: str, owner: str | None, key: str, *, message: str, code: int, data: Any = None
    ) -> Task:
        """Deliver an error in place of one answer: whoever was asked could not or would not answer at all.

        Raises:
            AlreadyFinished: The task is terminal.
        """
        task = await self.get(task_id, owner)
        if key not in task.input_requests and not task.status.is_terminal:
            return task
        return await self._apply(task, InputProvided({key: limits.fitting_error(message, code, data, self.policy)}))

    async def cancel(self, task_id: str, owner: str | None = None, reason: str | None = None) -> Task:
        """Cancel at once, and its children with it. Whoever works on it notices, and a late result is refused.

        Raises:
            AlreadyFinished: The task is terminal.
        """
        reason = None if reason is None else limits.brief(reason)
        task = await self._apply(await self.get(task_id, owner), Cancelled(reason, self.policy.retention))
        await cancel_children(self, task)
        return task

    async def journal(
        self, task_id: str, owner: str | None = None, *, after: int = 0, limit: int = 1000
    ) -> Sequence[Entry]:
        """Return what the work recorded and put out, in order: up to `limit` entries, without the first `after`."""
        _check_limit(limit)
        await self.get(task_id, owner)
        return await self._store.journal(task_id, after=max(after, 0), limit=limit)

    # For workers

    async def waiting(self, tools: Collection[str], *, limit: int, timeout: float) -> Sequence[Task]:
        """Return tasks that need a worker for one of `tools`, by full name; if there are none, wait `timeout` seconds
        for one.
        """
        offered = await self._store.waiting(tools, limit=limit, timeout=timeout)
        # What has expired would be offered again and again, in place of others, until the next sweep.
        await asyncio.gather(*(self._store.delete(task) for task in offered if self._is_expired(task)))
        return [task for task in offered if not self._is_expired(task)]

    async def unknown(self, tools: Collection[str]) -> Task | None:
        """Return the task that has waited longest for a worker that knows more than `tools`, by full name."""
        offered = await self._store.waiting(tools, limit=1, timeout=0, is_for_others=True)
        return next(iter(offered), None)

    async def claim(self, offered: Sequence[Task], worker: str) -> Sequence[Task]:
        """Take these tasks for `worker`; return those that nobody else took first."""
        now = self.clock()
        claims = [advance(task, Claimed(worker, now + self.policy.lease), now) for task in offered]
        won = await asyncio.gather(*(self._store.replace(task) for task in claims), return_exceptions=True)
        taken = [task for task, is_won in zip(claims, won, strict=True) if is_won is True]
        if not taken:
            for error in won:
                if isinstance(error, BaseException):
                    raise error
        return taken

    async def report(self, task: Task, event: WorkerEvent) -> Task:
        """Write what a worker says of the task it holds. Messages are cut to size; a result or an error that is too
        large becomes a failure that says so.

        Raises:
            LeaseLost: It holds it no longer.
            AlreadyFinished: The task is terminal.
            TooLarge: A question has too many bytes, or the journal would have.
        """
        return await self._apply(task, limits.bounded(event, self.policy))

    # For the timer

    async def sweep(self) -> None:
        """Free the tasks of lost workers, forget expired ones.

        Safe on every node at once: each change is a compare-and-swap, so no leader is needed.
        """
        await self.sweep_overdue()
        await self.sweep_dead()

    async def sweep_overdue(self) -> None:
        """Free what is held beyond its lease, forget what has expired."""
        while late := await self._store.overdue(self.clock(), limit=_BATCH):
            await asyncio.gather(*(self._settle(task) for task in late))
            if len(late) < _BATCH:
                break

    async def sweep_dead(self) -> None:
        """Free what dead processes of this host hold, without waiting for their leases."""
        after: Position | None = None
        looked_at = dict[str, bool]()
        while held := await self._store.list(Query(owner=EVERYONE, is_held=True, after=after, limit=_BATCH)):
            for worker in {task.lease.worker for task in held if task.lease} - looked_at.keys():
                looked_at[worker] = is_dead(worker)
            dead = {worker for worker, is_gone in looked_at.items() if is_gone}
            taken = [(task, lease.worker) for task in held if (lease := task.lease) and lease.worker in dead]
            await asyncio.gather(*(self._lose(task, "its process has ended", worker) for task, worker in taken))
            after = held[-1].position

    # For operators

    async def list_all(self, *, after: Position | None = None, limit: int = 1000) -> Sequence[Task]:
        """Return tasks of all owners, newest first. For those who run the place, never for a caller."""
        _check_limit(limit)
        return await self._store.list(Query(owner=EVERYONE, after=after, limit=limit))

    def _quota(self, owner: str | None, parent: Task | None) -> int | None:
        if parent:
            return self.policy.children
        return self.policy.anonymous_quota if owner is None else self.policy.quota

    async def _settle(self, task: Task) -> None:
        if self._is_expired(task):
            if await self._store.delete(task):
                self._end_process(task)
        elif task.lease and not task.lease.is_stalled:
            with suppress(Refused, TaskNotFound):
                await self._apply(task, Stalled(self.clock() + self.policy.lease / 3))
        else:
            await self._lose(task, "its lease ran out")

    async def _lose(self, task: Task, reason: str, dead_worker: str | None = None) -> None:
        policy = self.policy
        with suppress(Refused, TaskNotFound):
            await self._apply(task, WorkerLost(policy.max_losses, reason, dead_worker, policy.retention))

    async def _settle_key(self, task: Task, kept: Task, quota: int | None) -> Task:
        """Return the task kept under the same idempotency key, if it is of the same call."""
        while self._is_expired(kept):
            await self._store.delete(kept)
            kept = await self._store.insert(task, quota=quota)
        theirs, ours = kept.call, task.call
        if theirs.tool == ours.tool and canonical(theirs.arguments) == canonical(ours.arguments):
            return kept
        raise IdempotencyConflict(task.idempotency_key or "")

    async def _wait_while(self, statuses: Collection[Status], task: Task, timeout: float) -> Task:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while task.status in statuses and (left := deadline - loop.time()) > 0:
            task = await self.wait(task, left)
        return task

    def _is_expired(self, task: Task) -> bool:
        return task.expires_at is not None and task.expires_at <= self.clock()

    def _visible(self, task_id: str, owner: str | None, task: Task | None, now: datetime) -> Task:
        """The store was told already, so that it need not read what is refused here; the rule is this one."""
        if task is None or task.owner != owner or (task.expires_at is not None and task.expires_at <= now):
            raise TaskNotFound(task_id)
        return task

    async def _apply(self, task: Task, event: Event) -> Task:
        """Advance and write. If someone else wrote first, judge the event against their task."""
        entries = event.entries if isinstance(event, Recorded) else ()
        while True:
            if self._is_expired(task):
                task = await self._fresh(task)  # the copy in hand may be older than a lifetime that grew since
            changed = advance(task, event, self.clock())
            if entries:
                limits.check_journal(changed, self.policy)
            if await self._store.replace(changed, entries):
                if isinstance(event, Cancelled | WorkerLost):
                    self._end_process(task, at_once=isinstance(event, WorkerLost))
                return changed
            task = await self._fresh(task)

    def _end_process(self, task: Task, *, at_once: bool = False) -> None:
        """End the process a task was taken from, if it has no other: one that hangs would not see that it should.

        `at_once`: its successor may begin any moment.
        """
        if task.lease is None:
            return
        ours = (task.lease.worker, task.id)
        if interrupt(*ours, signal.SIGKILL if at_once else signal.SIGTERM) and not at_once:
            grace = 2 * self.policy.unwind.total_seconds() + _LAST_SECONDS
            asyncio.get_running_loop().call_later(grace, interrupt, *ours, signal.SIGKILL)

    async def _fresh(self, task: Task) -> Task:
        return await self.get(task.id, task.owner)


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= 1000:
        raise InvalidArgument(f"limit must be from 1 to 1000, but it is {limit}.")
