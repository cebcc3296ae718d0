"""How long a task lives, how long it waits for a person, how often it is asked for."""

from datetime import timedelta
from typing import Any

import pytest

from coatcheck import Engine, InvalidArgument, Policy, Task, TaskNotFound, Terms, Worker, tool
from coatcheck.lifecycle import Completed, Failed, InputRequested, InputWithdrawn, Released, WorkerEvent
from coatcheck.payload import encode
from coatcheck.store import Store
from coatcheck.stores.memory import MemoryStore
from coatcheck.task import Failure, InputRequest, Status
from coatcheck.testing.builders import NOW
from tests.clock import Clock

pytestmark = pytest.mark.anyio

POLICY = Policy()
OUTCOMES = (Completed(1, encode({}), keep=POLICY.retention), Failed(1, Failure(message="no"), POLICY.retention))
QUESTION = InputRequest(method="elicitation/create", params=encode({"message": "Sure?"}))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(clock: Clock) -> Engine:
    """An engine with the policy operators get if they say nothing."""
    return Engine(MemoryStore(), clock=clock)


async def asked(engine: Engine, **terms: Any) -> Task:
    task = await engine.submit("slow", owner="ann", claimed_by="w", terms=Terms(**terms))
    return await engine.report(task, InputRequested(1, {"k": QUESTION}, engine.policy.patience))


async def is_gone(engine: Engine, task: Task) -> bool:
    try:
        await engine.get(task.id, task.owner)
    except TaskNotFound:
        return True
    return False


# What may be asked for


async def test_a_task_lives_an_hour_if_nothing_else_is_said(engine: Engine) -> None:
    assert (await engine.submit("slow")).expires_at == NOW + timedelta(hours=1)


@pytest.mark.parametrize("ttl", [90, 90.0, timedelta(seconds=90)], ids=repr)
async def test_a_task_lives_as_long_as_was_asked_for(engine: Engine, ttl: Any) -> None:
    assert (await engine.submit("slow", terms=Terms(ttl=ttl))).expires_at == NOW + timedelta(seconds=90)


@pytest.mark.parametrize(
    "ttl", [86400, timedelta(days=2), 1e12, 1e300, 10**30, timedelta.max, 10**400], ids=lambda ttl: f"{ttl!r:.20}"
)
async def test_no_task_lives_longer_than_a_day_however_much_is_asked_for(engine: Engine, ttl: Any) -> None:
    assert (await engine.submit("slow", terms=Terms(ttl=ttl))).expires_at == NOW + timedelta(days=1)


async def test_a_task_without_end_is_refused_unless_the_operator_allows_it(engine: Engine, clock: Clock) -> None:
    with pytest.raises(InvalidArgument, match="leave the ttl out, or set allows_unlimited_ttl"):
        await engine.submit("slow", terms=Terms(ttl=None))
    generous = Engine(MemoryStore(), Policy(allows_unlimited_ttl=True), clock)
    task = await generous.submit("slow", terms=Terms(ttl=None))
    assert task.expires_at is None
    clock.turn(days=3650)
    await generous.sweep()
    assert await generous.get(task.id) == task


NOT_POSITIVE = (0, 0.0, -1, -0.5, timedelta(), timedelta(seconds=-1), float("nan"), float("inf"), float("-inf"))


@pytest.mark.parametrize("wish", ["ttl", "poll_interval"])
@pytest.mark.parametrize("value", NOT_POSITIVE, ids=repr)
async def test_a_duration_that_is_not_positive_is_refused_with_what_to_give_instead(
    engine: Engine, wish: str, value: Any
) -> None:
    with pytest.raises(InvalidArgument, match=f"^{wish} must be .*; give a positive duration"):
        await engine.submit("slow", terms=Terms(**{wish: value}))
    assert await engine.list() == []


@pytest.mark.parametrize("wish", ["ttl", "poll_interval"])
@pytest.mark.parametrize("value", [True, False, "60", "", b"60", [60], {"seconds": 60}, object], ids=repr)
async def test_what_is_no_duration_is_refused_with_what_to_give_instead(engine: Engine, wish: str, value: Any) -> None:
    with pytest.raises(
        InvalidArgument, match=f"^{wish} must be a timedelta or a number of seconds, not {type(value).__name__}"
    ):
        await engine.submit("slow", terms=Terms(**{wish: value}))
    assert await engine.list() == []


@pytest.mark.parametrize("ttl", [1e-7, 1e-9, 5e-324], ids=repr)
async def test_a_lifetime_too_short_to_measure_does_not_become_an_endless_one(engine: Engine, ttl: float) -> None:
    """Either refused, or over at once."""
    try:
        task = await engine.submit("slow", terms=Terms(ttl=ttl))
    except InvalidArgument:
        return
    assert task.expires_at is not None


async def test_a_client_is_asked_to_poll_every_two_seconds(engine: Engine) -> None:
    assert (await engine.submit("slow")).poll_interval == timedelta(seconds=2)


async def test_a_tool_may_ask_to_be_polled_at_its_own_pace(engine: Engine) -> None:
    async def slow(_context: object) -> None: ...
    async def slower(_context: object) -> None: ...

    worker = Worker(engine, [tool(slow, poll_interval=0.25), tool(slower, poll_interval=timedelta(minutes=5))])
    assert (await worker.submit("slow")).poll_interval == timedelta(seconds=0.25)
    assert (await worker.submit("slower")).poll_interval == timedelta(minutes=5)


async def test_a_tool_may_set_the_lifetime_of_its_tasks_and_a_call_may_set_another(engine: Engine) -> None:
    async def slow(_context: object) -> None: ...

    worker = Worker(engine, [tool(slow, ttl=60)])
    assert (await worker.submit("slow")).expires_at == NOW + timedelta(seconds=60)
    assert (await worker.submit("slow", ttl=30)).expires_at == NOW + timedelta(seconds=30)


# Its end


async def test_an_expired_task_looks_like_one_that_never_was(engine: Engine, clock: Clock) -> None:
    task = await engine.submit("slow", owner="ann")
    clock.turn(minutes=59, seconds=59)
    assert await engine.get(task.id, "ann") == task
    clock.turn(seconds=1)
    for verb in (engine.get, engine.cancel, engine.journal):
        with pytest.raises(TaskNotFound) as expired:
            await verb(task.id, "ann")
        with pytest.raises(TaskNotFound) as unknown:
            await verb("never-was", "ann")
        assert str(expired.value).replace(task.id, "never-was") == str(unknown.value)
    with pytest.raises(TaskNotFound):
        await engine.answer(task.id, "ann", {"k": 1})
    with pytest.raises(TaskNotFound):
        await engine.wait(task, timeout=0)
    assert await engine.list("ann") == []
    assert await engine.waiting({"slow"}, limit=9, timeout=0) == []


async def test_the_sweep_forgets_what_has_expired_and_nothing_else(store: Store, clock: Clock) -> None:
    engine = Engine(store, clock=clock)
    short = await engine.submit("slow", owner="ann", terms=Terms(ttl=60))
    long = await engine.submit("slow", owner="ann")
    clock.turn(seconds=60)
    assert await store.get(short.id) == short
    await engine.sweep()
    assert await store.get(short.id) is None
    assert await store.get(long.id) == long


async def test_a_task_that_is_being_worked_on_expires_all_the_same(store: Store, clock: Clock) -> None:
    engine = Engine(store, clock=clock)
    task = await engine.submit("slow", owner="ann", claimed_by="w", terms=Terms(ttl=60))
    clock.turn(seconds=60)
    await engine.sweep()
    with pytest.raises(TaskNotFound):
        await engine.report(task, Completed(1, encode({})))


@pytest.mark.parametrize("said", ["completed", "asking"])
async def test_a_task_that_has_expired_does_not_come_back(engine: Engine, clock: Clock, said: str) -> None:
    """Whether its worker is heard before the next sweep or after it must make no difference."""
    task = await engine.submit("slow", owner="ann", claimed_by="w", terms=Terms(ttl=60))
    clock.turn(seconds=60)
    assert await is_gone(engine, task)
    late = OUTCOMES[0] if said == "completed" else InputRequested(1, {"k": QUESTION}, POLICY.patience)
    with pytest.raises(TaskNotFound):
        await engine.report(task, late)
    assert await is_gone(engine, task)


# While a person is asked


@pytest.mark.parametrize("ttl", [60, 3600])
async def test_the_lifetime_stands_still_while_a_person_thinks_for_days_and_runs_on_after(
    store: Store, clock: Clock, ttl: int
) -> None:
    engine = Engine(store, clock=clock)
    task = await engine.submit("slow", owner="ann", claimed_by="w", terms=Terms(ttl=ttl, resumable=True))
    clock.turn(seconds=20)
    await engine.report(task, InputRequested(1, {"k": QUESTION}, POLICY.patience))
    await engine.report(task, Released(1))
    clock.turn(days=6, hours=23)
    await engine.sweep()
    answered = await engine.answer(task.id, "ann", {"k": "yes"})
    assert (answered.status, answered.expires_at) == (Status.WORKING, clock() + timedelta(seconds=ttl - 20))
    clock.turn(seconds=ttl - 21)
    await engine.sweep()
    assert not await is_gone(engine, task)
    clock.turn(seconds=1)
    assert await is_gone(engine, task)


async def test_a_withdrawn_question_lets_the_lifetime_run_on_too(engine: Engine, clock: Clock) -> None:
    task = await asked(engine)
    clock.turn(days=3)
    withdrawn = await engine.report(task, InputWithdrawn(1, ("k",)))
    assert withdrawn.expires_at == clock() + timedelta(hours=1)


async def test_a_question_is_open_for_a_week_and_then_the_task_is_gone(engine: Engine, clock: Clock) -> None:
    task = await asked(engine, ttl=60)
    clock.turn(days=7, seconds=-1)
    assert not await is_gone(engine, task)
    clock.turn(seconds=1)
    assert await is_gone(engine, task)


async def test_a_question_never_costs_a_task_the_lifetime_it_had(clock: Clock) -> None:
    engine = Engine(MemoryStore(), Policy(patience=timedelta(minutes=5)), clock)
    task = await asked(engine, ttl=3600)
    assert task.expires_at == NOW + timedelta(hours=1)


async def test_a_second_question_may_stay_open_as_long_as_the_first_one(engine: Engine, clock: Clock) -> None:
    task = await asked(engine)
    clock.turn(days=6)
    asked_twice = await engine.report(task, InputRequested(1, {"l": QUESTION}, POLICY.patience))
    assert asked_twice.expires_at is not None
    assert asked_twice.expires_at - clock() >= POLICY.patience


async def test_a_task_without_end_has_none_while_a_person_is_asked_either(clock: Clock) -> None:
    engine = Engine(MemoryStore(), Policy(allows_unlimited_ttl=True), clock)
    task = await asked(engine, ttl=None)
    clock.turn(days=30)
    answered = await engine.answer(task.id, "ann", {"k": "yes"})
    assert (task.expires_at, answered.expires_at) == (None, None)


# After the end


@pytest.mark.parametrize("outcome", OUTCOMES, ids=["completed", "failed"])
async def test_an_outcome_that_comes_at_the_last_moment_is_kept_for_five_minutes(
    engine: Engine, clock: Clock, outcome: WorkerEvent
) -> None:
    task = await engine.submit("slow", owner="ann", claimed_by="w", terms=Terms(ttl=60))
    clock.turn(seconds=59)
    ended = await engine.report(task, outcome)
    clock.turn(seconds=299)
    await engine.sweep()
    assert await engine.get(task.id, "ann") == ended
    clock.turn(seconds=1)
    assert await is_gone(engine, task)


async def test_a_cancelled_task_is_kept_for_five_minutes(engine: Engine, clock: Clock) -> None:
    task = await engine.submit("slow", owner="ann", terms=Terms(ttl=60))
    cancelled = await engine.cancel(task.id, "ann")
    clock.turn(seconds=299)
    await engine.sweep()
    assert await engine.get(task.id, "ann") == cancelled


async def test_the_failure_of_a_lost_worker_is_kept_for_five_minutes(engine: Engine, clock: Clock) -> None:
    task = await engine.submit("slow", owner="ann", claimed_by="w", terms=Terms(ttl=60))
    for _ in ("stalled", "lost"):
        clock.turn(seconds=29)
        await engine.sweep()
    clock.turn(seconds=299)
    await engine.sweep()
    assert (await engine.get(task.id, "ann")).status is Status.FAILED


async def test_an_outcome_is_kept_for_the_whole_lifetime_if_that_is_longer(engine: Engine, clock: Clock) -> None:
    task = await engine.submit("slow", owner="ann", claimed_by="w")
    ended = await engine.report(task, OUTCOMES[0])
    assert ended.expires_at == task.expires_at
