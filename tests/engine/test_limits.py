"""How large may be what is kept of a task: exactly so much, and not a byte more."""

import asyncio
import pickle
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coatcheck import Engine, InvalidArgument, Policy, Status, SyncContext, Task, TaskContext, ToolFailed, Worker, tool
from coatcheck.errors import NotAnswered, TooLarge
from coatcheck.lifecycle import Completed, InputRequested, Noted, Recorded
from coatcheck.limits import LONGEST_MESSAGE
from coatcheck.payload import Payload, decode, encode
from coatcheck.store import Store
from coatcheck.stores.memory import MemoryStore
from coatcheck.task import Entry, InputRequest
from coatcheck.testing.builders import NOW
from tests.clock import Clock
from tests.engine.conftest import finished, until

pytestmark = pytest.mark.anyio

LIMIT = 100
SMALL = Policy(max_arguments=LIMIT, max_answer=LIMIT, max_journal=LIMIT, max_result=LIMIT)
ANYTHING = Policy(max_arguments=None, max_answer=None, max_journal=None, max_result=None)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)


@pytest.fixture
def small(store: Store, clock: Clock) -> Engine:
    return Engine(store, SMALL, clock)


def of_size(size: int, filling: str = "x") -> Payload:
    """Return a JSON object of so many bytes."""
    room = size - len(encode({"v": filling}))
    return encode({"v": filling + "x" * room})


def an_entry_of(size: int, filling: str = "x") -> Entry:
    return Entry(kind="step", key="step:a#1", value=of_size(size - len("step:a#1"), filling), at=NOW)


async def held(engine: Engine) -> Task:
    (task,) = await engine.claim([await engine.submit("slow")], "w")
    return task


# Exactly at the limit


@pytest.mark.parametrize("name", ["max_arguments", "max_answer", "max_journal", "max_result"])
async def test_a_limit_is_at_least_a_byte(name: str) -> None:
    wrong: dict[str, Any] = {name: 0}
    with pytest.raises(InvalidArgument, match=f"{name} must be at least 1"):
        Policy(**wrong)


@settings(deadline=None)
@given(TEXT, st.integers(0, 50))
def test_arguments_answers_and_results_pass_at_the_limit_and_not_a_byte_above(text: str, more: int) -> None:
    limit = len(encode({"v": text})) + more
    policy = Policy(max_arguments=limit, max_answer=limit, max_result=limit, max_journal=None)
    fits, does_not = of_size(limit, text), of_size(limit + 1, text)
    assert (len(fits), len(does_not)) == (limit, limit + 1)

    async def check() -> None:
        engine = Engine(MemoryStore(), policy)
        with pytest.raises(TooLarge) as refused:
            await engine.submit("slow", does_not)
        assert (refused.value.size, refused.value.limit) == (limit + 1, limit)
        question = {"k": InputRequest(method="m", params=encode(None))}
        (task,) = await engine.claim([await engine.submit("slow", fits)], "w")
        task = await engine.report(task, InputRequested(1, question, timedelta(days=1)))
        with pytest.raises(TooLarge):
            await engine.answer(task.id, None, {"k": does_not})
        task = await engine.answer(task.id, None, {"k": fits})
        assert task.input_responses == {"k": fits}
        assert (await engine.report(task, Completed(1, fits))).result == fits
        (task,) = await engine.claim([await engine.submit("slow")], "w")
        assert (await engine.report(task, Completed(1, does_not))).status is Status.FAILED

    asyncio.run(check())


@settings(deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=6))
def test_a_journal_passes_at_the_limit_and_not_a_byte_above(texts: list[str]) -> None:
    entries = [Entry(kind="output", key=f"output#{n}", value=encode(text), at=NOW) for n, text in enumerate(texts)]
    limit = sum(len(entry.key) + len(entry.value) for entry in entries)

    async def check() -> None:
        for allowed in (limit, limit - 1):
            engine = Engine(MemoryStore(), Policy(max_journal=allowed))
            task = await held(engine)
            for entry in entries[:-1]:
                task = await engine.report(task, Recorded(1, (entry,)))
            last = Recorded(1, entries[-1:])
            if allowed < limit:
                with pytest.raises(TooLarge, match=f"would take {limit} bytes"):
                    await engine.report(task, last)
            else:
                assert (await engine.report(task, last)).journal_size == limit

    asyncio.run(check())


# What is refused is not written


async def test_arguments_that_are_too_large_leave_no_task(small: Engine) -> None:
    wishes: dict[str, Any]
    for wishes in ({"arguments": of_size(101)}, {"meta": of_size(101)}, {"identity": {"v": "x" * 100}}):
        with pytest.raises(TooLarge, match="but at most 100 are allowed"):
            await small.submit("slow", **wishes)
    assert await small.list_all() == []


async def test_of_several_answers_none_is_taken_if_one_is_too_large(small: Engine) -> None:
    questions = {key: InputRequest(method="m", params=encode(None)) for key in ("a", "b")}
    task = await small.report(await held(small), InputRequested(1, questions, timedelta(days=1)))
    with pytest.raises(TooLarge, match="The answer to 'b' takes 101 bytes"):
        await small.answer(task.id, None, {"a": of_size(100), "b": of_size(101)})
    assert await small.get(task.id) == task


async def test_an_error_in_place_of_an_answer_loses_its_data_if_they_are_too_large(small: Engine) -> None:
    heard: list[tuple[str, object]] = []

    async def asks(ctx: TaskContext) -> None:
        try:
            await ctx.ask("m", {})
        except NotAnswered as error:
            heard.append((error.message, error.data))

    async with Worker(small, [tool(asks)]) as worker:
        task = await until(small, await worker.submit("asks"), lambda task: task.input_requests)
        (key,) = task.input_requests
        await small.answer_with_error(task.id, None, key, message="no", code=-1, data="x" * 100)
        await finished(small, task)
    assert heard == [("no", None)]


async def test_the_size_of_the_journal_is_kept_with_the_row(small: Engine) -> None:
    task = await small.report(await held(small), Recorded(1, (an_entry_of(40), an_entry_of(30, "\u00e9"))))
    assert (await small.get(task.id)).journal_size == task.journal_size == 70
    with pytest.raises(TooLarge, match="journal would take 101 bytes"):
        await small.report(task, Recorded(1, (an_entry_of(31),)))
    assert await small.get(task.id) == task
    assert len(await small.journal(task.id)) == 2
    assert (await small.report(task, Recorded(1, (an_entry_of(30),)))).journal_size == LIMIT


async def test_rows_of_before_sizes_were_counted_begin_with_none() -> None:
    raw = msgspec.json.decode(msgspec.json.encode(await Engine(MemoryStore()).submit("slow")))
    assert "journal_size" not in raw
    assert msgspec.convert(raw, Task).journal_size == 0


# In a tool


async def test_a_tool_may_catch_that_its_journal_is_full_and_go_on(small: Engine) -> None:
    async def talks(ctx: TaskContext) -> str:
        await ctx.output("x" * 70)
        try:
            await ctx.output("y" * 70)
        except TooLarge:
            await ctx.output("!")
        return "went on"

    async with Worker(small, [tool(talks)]) as worker:
        task = await finished(small, await worker.submit("talks"))
    assert task.result == encode("went on")
    assert [decode(entry.value) for entry in await small.journal(task.id)] == ["x" * 70, "!"]


async def test_a_tool_that_does_not_catch_it_fails_with_what_it_said(small: Engine) -> None:
    async def steps(ctx: TaskContext) -> str:
        return await ctx.step("load", lambda: "x" * 100)

    async with Worker(small, [tool(steps)]) as worker:
        task = await finished(small, await worker.submit("steps"))
    assert task.failure is not None
    assert "journal would take 113 bytes of JSON, but at most 100" in task.failure.message
    assert await small.journal(task.id) == []


async def test_a_question_that_is_too_large_is_not_asked(small: Engine) -> None:
    async def asks(ctx: TaskContext) -> str:
        try:
            await ctx.elicit("x" * 100, {"type": "object"})
        except TooLarge as error:
            return str(error)[:18]
        return "asked"

    async with Worker(small, [tool(asks)]) as worker:
        task = await finished(small, await worker.submit("asks"))
    assert task.result == encode("The question takes")


async def _loop(ctx: TaskContext) -> str:
    return "x" * 99


def _thread(ctx: SyncContext) -> str:
    return "x" * 99


async def _fits(ctx: TaskContext) -> str:
    return "x" * 98


@pytest.mark.parametrize(
    "runs",
    ["loop", "auto", pytest.param("process", marks=pytest.mark.slow)],
    ids=["loop", "thread", "process"],
)
async def test_a_result_that_is_too_large_fails_the_task_and_says_so(store: Store, runs: Any) -> None:
    engine = Engine(store, SMALL)
    work = tool(_loop, name="work") if runs == "loop" else tool(_thread, name="work", runs=runs)
    async with Worker(engine, [work, tool(_fits, name="fits")]) as worker:
        task = await finished(engine, await worker.submit("work"))
        assert (await finished(engine, await worker.submit("fits"))).status is Status.COMPLETED
    assert task.failure is not None
    assert task.failure.message == (
        "The tool's result takes 101 bytes of JSON, but at most 100 are allowed; return a link, or fewer rows."
    )
    assert decode(task.failure.data) == {"bytes": 101, "limit": 100}
    assert not task.result


async def test_an_error_keeps_its_code_and_loses_data_that_are_too_large(small: Engine) -> None:
    async def breaks(ctx: TaskContext) -> None:
        raise ToolFailed("broken", -7, "x" * 100)

    async with Worker(small, [tool(breaks)]) as worker:
        task = await finished(small, await worker.submit("breaks"))
    assert task.failure is not None
    assert (task.failure.code, decode(task.failure.data)) == (-7, {"bytes": 102, "limit": 100})
    assert task.failure.message.startswith("broken (Its data take 102 bytes")


async def test_messages_are_cut(small: Engine) -> None:
    task = await small.report(await held(small), Noted(1, "x" * LONGEST_MESSAGE))
    assert task.status_message == "x" * LONGEST_MESSAGE
    task = await small.report(task, Noted(1, "y" * (LONGEST_MESSAGE + 1)))
    assert task.status_message == "y" * (LONGEST_MESSAGE - 1) + "…"

    async def breaks(ctx: TaskContext) -> None:
        raise ToolFailed("x" * 2 * LONGEST_MESSAGE)

    async with Worker(small, [tool(breaks)]) as worker:
        broken = await finished(small, await worker.submit("breaks"))
    assert broken.failure is not None
    assert len(broken.failure.message) == LONGEST_MESSAGE
    cancelled = await small.cancel(task.id, reason="x" * 2 * LONGEST_MESSAGE)
    assert cancelled.status_message is not None
    assert len(cancelled.status_message) == LONGEST_MESSAGE


# Without limits, and what the error is


async def test_none_is_no_limit(store: Store) -> None:
    engine = Engine(store, ANYTHING)
    large = {"v": "x" * (2 << 20)}

    async def echo(ctx: TaskContext, v: str) -> str:
        await ctx.output(v)
        return v

    async with Worker(engine, [tool(echo)]) as worker:
        task = await finished(engine, await worker.submit("echo", large))
    assert len(task.result or b"") == (2 << 20) + 2


async def test_a_mebibyte_of_arguments_is_allowed_by_default(engine: Engine) -> None:
    await engine.submit("slow", of_size(1 << 20))
    with pytest.raises(TooLarge, match="pass a link"):
        await engine.submit("slow", of_size((1 << 20) + 1))


async def test_the_error_crosses_from_process_to_process_as_it_is() -> None:
    error = TooLarge("The result takes", 2, 1, "return less")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.size, again.limit) == (str(error), 2, 1)
    assert isinstance(again, InvalidArgument)
