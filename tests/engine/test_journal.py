"""What survives a lost worker: recorded steps, answers, output."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from coatcheck import Engine, InvalidAnswer, Policy, Status, Task, TaskContext, Tool, Worker, decode, tool
from coatcheck.context import OUTPUT
from coatcheck.errors import LeaseLost
from coatcheck.execution import Execution
from coatcheck.lifecycle import Recorded
from coatcheck.payload import encode
from coatcheck.policy import Terms
from coatcheck.store import Store
from coatcheck.testing.builders import an_entry
from tests.clock import Clock
from tests.engine.conftest import finished, until

pytestmark = pytest.mark.anyio

YES_OR_NO = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
YES = {"action": "accept", "content": {"ok": True}}
RESUMABLE = Terms(resumable=True)


def is_asking(task: Task) -> bool:
    return task.status is Status.INPUT_REQUIRED


def open_keys(task: Task) -> list[str]:
    return list(task.input_requests)


async def lose_worker(engine: Engine, clock: Clock) -> None:
    """Let leases run out, and the last while after that."""
    for _ in range(2):
        clock.turn(minutes=1)
        await engine.sweep()


async def begin(engine: Engine, task: Task, made: Tool) -> Execution:
    """Run a task as a worker would that is about to vanish without a word."""
    (held,) = await engine.claim([await engine.get(task.id, task.owner)], "doomed")
    return Execution(engine, held, made, ended=lambda _: None)


async def run_until_lost(engine: Engine, clock: Clock, task: Task, made: Tool, reached: asyncio.Event) -> None:
    """Run a task as far as `reached` by a worker that is lost then."""
    doomed = await begin(engine, task, made)
    await asyncio.wait_for(reached.wait(), 5)
    await vanish(doomed)
    await lose_worker(engine, clock)


async def vanish(execution: Execution) -> None:
    execution.stop()
    await asyncio.sleep(0)


async def test_recorded_steps_are_not_repeated_after_a_lost_worker(engine: Engine, clock: Clock) -> None:
    done: list[str] = []
    hold = asyncio.Event()
    reached = asyncio.Event()

    def note(city: str) -> tuple[str, int]:
        done.append(city)
        return city, len(done)

    async def tour(ctx: TaskContext) -> list[Any]:
        seen = [await ctx.step("visit", note, "Oslo"), await ctx.step("visit", note, "Rome")]
        reached.set()
        await hold.wait()
        return [*seen, await ctx.step("visit", note, "Lima")]

    made = tool(tour, resumable=True)
    task = await engine.submit("tour", terms=RESUMABLE)
    await run_until_lost(engine, clock, task, made, reached)
    hold.set()
    async with Worker(engine, [made]):
        ended = await finished(engine, task)
    assert done == ["Oslo", "Rome", "Lima"]
    assert decode(ended.result or encode(None)) == [["Oslo", 1], ["Rome", 2], ["Lima", 3]]
    assert (ended.attempt, ended.losses) == (2, 1)


async def test_a_step_looks_the_same_in_the_run_that_records_it(engine: Engine) -> None:
    async def pair(ctx: TaskContext) -> str:
        return type(await ctx.step("pair", lambda: (1, 2))).__name__

    async with Worker(engine, [tool(pair)]) as worker:
        assert (await finished(engine, await worker.submit("pair"))).result == encode("list")


async def test_a_step_that_fails_is_not_recorded(engine: Engine) -> None:
    tries: list[int] = []

    def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("try again")
        return "ok"

    async def stubborn(ctx: TaskContext) -> str:
        while True:
            try:
                return await ctx.step("fetch", flaky)
            except OSError:
                continue

    async with Worker(engine, [tool(stubborn)]) as worker:
        task = await finished(engine, await worker.submit("stubborn"))
    assert (task.result, len(await engine.journal(task.id))) == (encode("ok"), 1)


async def test_work_that_is_not_resumable_is_never_run_again_and_says_why(engine: Engine, clock: Clock) -> None:
    async def once(ctx: TaskContext) -> None:
        await asyncio.Event().wait()

    task = await engine.submit("once")
    await vanish(await begin(engine, task, tool(once)))
    clock.turn(minutes=1)
    await engine.sweep()
    stalled = await engine.get(task.id)
    assert stalled.status is Status.WORKING
    assert "Stalled" in (stalled.status_message or "")
    clock.turn(minutes=1)
    await engine.sweep()
    failed = await engine.get(task.id)
    assert (failed.status, failed.attempt) == (Status.FAILED, 1)
    assert failed.failure
    assert "worker was lost" in failed.failure.message
    assert "not resumable" in failed.failure.message


async def test_a_resumable_task_that_keeps_killing_workers_fails_in_the_end(engine: Engine, clock: Clock) -> None:
    task = await engine.submit("poison", terms=RESUMABLE)
    for _ in range(3):
        await engine.claim([await engine.get(task.id)], "w")
        await lose_worker(engine, clock)
    failed = await engine.get(task.id)
    assert failed.failure
    assert "lost 3 times" in failed.failure.message


async def test_a_lost_worker_cannot_write_to_the_journal(engine: Engine, clock: Clock) -> None:
    task = await engine.submit("tour", terms=RESUMABLE)
    (lost,) = await engine.claim([task], "a")
    await lose_worker(engine, clock)
    await engine.claim([await engine.get(task.id)], "b")
    with pytest.raises(LeaseLost):
        await engine.report(lost, Recorded(lost.attempt, (an_entry(),)))
    assert list(await engine.journal(task.id)) == []


async def test_output_is_read_in_order_while_the_work_goes_on(engine: Engine) -> None:
    go_on = asyncio.Event()

    async def talk(ctx: TaskContext) -> None:
        for word in ("a", "b"):
            await ctx.output(word)
        await go_on.wait()
        await ctx.output({"c": 3})

    async with Worker(engine, [tool(talk)]) as worker:
        task = await worker.submit("talk", owner="ann")
        await until(engine, task, lambda task: task.entries == 2)
        assert [decode(entry.value) for entry in await engine.journal(task.id, "ann")] == ["a", "b"]
        go_on.set()
        await finished(engine, task)
    (last,) = await engine.journal(task.id, "ann", after=2)
    assert (last.kind, decode(last.value)) == (OUTPUT, {"c": 3})


async def test_output_is_not_repeated_when_the_work_is_run_again(engine: Engine, clock: Clock) -> None:
    reached, hold = asyncio.Event(), asyncio.Event()

    async def talk(ctx: TaskContext) -> None:
        await ctx.output("a")
        await ctx.output(f"run {ctx.task.attempt}")
        reached.set()
        await hold.wait()
        await ctx.output("c")

    made = tool(talk, resumable=True)
    task = await engine.submit("talk", terms=RESUMABLE)
    await run_until_lost(engine, clock, task, made, reached)
    hold.set()
    async with Worker(engine, [made]):
        await finished(engine, task)
    assert [decode(entry.value) for entry in await engine.journal(task.id)] == ["a", "run 1", "run 2", "c"]


async def approve(ctx: TaskContext) -> dict[str, Any]:
    return await ctx.elicit("Ship it?", YES_OR_NO)


async def test_a_person_is_asked_and_the_answer_reaches_the_work(engine: Engine) -> None:
    async with Worker(engine, [tool(approve)]) as worker:
        task = await until(engine, await worker.submit("approve", owner="ann"), is_asking)
        (key,) = open_keys(task)
        request = task.input_requests[key]
        assert (request.method, decode(request.params)["message"]) == ("elicitation/create", "Ship it?")
        answered = await engine.answer(task.id, "ann", {key: YES})
        assert (answered.status, open_keys(answered)) == (Status.WORKING, [])
        assert (await finished(engine, task)).result == encode(YES)


async def test_whoever_is_asked_sees_how_far_the_work_is(engine: Engine) -> None:
    async def nearly(ctx: TaskContext) -> dict[str, Any]:
        for done in range(1, 10):
            await ctx.progress(done, 10, f"part {done}")
        return await approve(ctx)

    async with Worker(engine, [tool(nearly)], grace=0.01) as worker:
        task = await until(engine, await worker.submit("nearly"), is_asking)
    assert task.progress
    assert (task.progress.done, task.status_message) == (9, "part 9")


@pytest.mark.parametrize("answer", [{"action": "decline"}, {"action": "cancel"}])
async def test_declining_needs_no_content(engine: Engine, answer: dict[str, Any]) -> None:
    async with Worker(engine, [tool(approve)]) as worker:
        task = await until(engine, await worker.submit("approve"), is_asking)
        await engine.answer(task.id, None, {open_keys(task)[0]: answer})
        assert (await finished(engine, task)).result == encode(answer)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"action": "accept", "content": {"ok": "yes"}}, "content.ok: 'yes' is not of type 'boolean'"),
        ({"action": "accept"}, "'content' is a required property"),
        ({"action": "maybe"}, "'maybe' is not one of"),
        ("yes", "is not of type 'object'"),
        (None, "is not of type 'object'"),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays(
    engine: Engine, answer: Any, reason: str
) -> None:
    async with Worker(engine, [tool(approve)], grace=0.01) as worker:
        task = await until(engine, await worker.submit("approve"), is_asking)
        (key,) = open_keys(task)
        with pytest.raises(InvalidAnswer) as refusal:
            await engine.answer(task.id, None, {key: answer})
        assert reason in str(refusal.value)
        assert await engine.get(task.id) == task


async def test_several_questions_may_be_open_and_partial_answers_are_kept(engine: Engine) -> None:
    async def three(ctx: TaskContext) -> list[Any]:
        asks = (ctx.ask("elicitation/create", {"message": name}) for name in ("a", "a", "b"))
        return await asyncio.gather(*asks)

    async with Worker(engine, [tool(three)]) as worker:
        task = await until(engine, await worker.submit("three"), lambda task: len(task.input_requests) == 3)
        first, second, third = sorted(
            open_keys(task), key=lambda key: bytes(task.input_requests[key].params) + key.encode()
        )
        partly = await engine.answer(task.id, None, {second: 2, "unknown": 9})
        assert (partly.status, set(open_keys(partly))) == (Status.INPUT_REQUIRED, {first, third})
        again = await engine.answer(task.id, None, {second: "changed"})
        assert again == partly, "an answered question is answered"
        await engine.answer(task.id, None, {first: 1, third: 3})
        assert (await finished(engine, task)).result == encode([1, 2, 3])


async def test_a_question_the_work_gave_up_on_is_withdrawn(engine: Engine) -> None:
    async def impatient(ctx: TaskContext) -> str:
        try:
            async with asyncio.timeout(0.01):
                await ctx.elicit("Quick?", YES_OR_NO)
        except TimeoutError:
            return "went on without"
        return "answered"

    async with Worker(engine, [tool(impatient)]) as worker:
        task = await worker.submit("impatient")
        asked = await until(engine, task, lambda task: is_asking(task) or task.status.is_terminal)
        done = await finished(engine, task)
        assert (done.result, open_keys(done)) == (encode("went on without"), [])
    with pytest.raises(Exception, match="already completed"):
        await engine.answer(task.id, None, dict.fromkeys(open_keys(asked), YES))


async def test_an_answer_given_after_the_crash_reaches_the_code_that_asked(engine: Engine, clock: Clock) -> None:
    steps: list[str] = []

    async def careful(ctx: TaskContext) -> dict[str, Any]:
        await ctx.step("prepare", steps.append, "prepared")
        return await ctx.elicit("Ship it?", YES_OR_NO)

    made = tool(careful, resumable=True)
    task = await engine.submit("careful", owner="ann", terms=RESUMABLE)
    doomed = await begin(engine, task, made)
    asked = await until(engine, task, is_asking)
    await vanish(doomed)
    await lose_worker(engine, clock)
    parked = await engine.get(task.id, "ann")
    assert (parked.status, open_keys(parked), parked.lease) == (Status.INPUT_REQUIRED, open_keys(asked), None)
    clock.turn(days=6)
    await engine.sweep()
    await engine.answer(task.id, "ann", dict.fromkeys(open_keys(parked), YES))
    async with Worker(engine, [made]):
        done = await finished(engine, await engine.get(task.id, "ann"))
    assert (done.result, steps) == (encode(YES), ["prepared"])


async def test_work_that_waits_long_makes_room_and_comes_back_with_the_answer(store: Store) -> None:
    engine = Engine(store, Policy(park_after=timedelta(seconds=0.01)))
    runs: list[int] = []

    async def careful(ctx: TaskContext) -> dict[str, Any]:
        runs.append(1)
        return await ctx.elicit("Ship it?", YES_OR_NO)

    async with Worker(engine, [tool(careful, resumable=True)], slots=1) as worker:
        task = await worker.submit("careful")
        parked = await until(engine, task, lambda task: is_asking(task) and task.lease is None)
        await engine.answer(task.id, None, dict.fromkeys(open_keys(parked), YES))
        done = await finished(engine, task)
    assert (done.result, len(runs), done.losses) == (encode(YES), 2, 0)


async def test_the_lifetime_stands_still_while_a_person_is_asked(engine: Engine, clock: Clock) -> None:
    async with Worker(engine, [tool(approve)]) as worker:
        task = await until(engine, await worker.submit("approve", ttl=3600), is_asking)
        clock.turn(days=3)
        await engine.sweep()
        await engine.answer(task.id, None, dict.fromkeys(open_keys(task), YES))
        done = await finished(engine, await engine.get(task.id))
    assert done.expires_at == clock.now + timedelta(hours=1)
