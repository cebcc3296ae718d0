"""Whatever a caller gets wrong: a typed error, a sentence to act on, nothing written."""

import math
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from coatcheck import Engine, InvalidArgument, Policy, Status, TaskContext, Terms, Worker, tool
from coatcheck.payload import encode
from coatcheck.store import EVERYONE, Query, Store
from tests.engine.conftest import finished

pytestmark = pytest.mark.anyio
ANY: Any = None


async def fine(ctx: TaskContext) -> None: ...


BAD_SUBMITS: dict[str, Callable[[Engine], Awaitable[Any]]] = {
    "no tool": lambda engine: engine.submit(""),
    "a tool that is no text": lambda engine: engine.submit(ANY),
    "a tool name with control characters": lambda engine: engine.submit("a\nb"),
    "a tool name with half a surrogate pair": lambda engine: engine.submit("\ud83d"),
    "a very long tool name": lambda engine: engine.submit("x" * 513),
    "arguments that are a list": lambda engine: engine.submit("t", [1]),  # pyright: ignore[reportArgumentType]
    "arguments that are None": lambda engine: engine.submit("t", ANY),
    "arguments without a JSON form": lambda engine: engine.submit("t", {"a": object()}),
    "arguments that hold themselves": lambda engine: engine.submit("t", _endless()),
    "an owner that is no text": lambda engine: engine.submit("t", owner=1),  # pyright: ignore[reportArgumentType]
    "an empty owner": lambda engine: engine.submit("t", owner=""),
    "an empty key": lambda engine: engine.submit("t", idempotency_key=""),
    "an identity that is text": lambda engine: engine.submit("t", identity="ann"),  # pyright: ignore[reportArgumentType]
    "a zero ttl": lambda engine: engine.submit("t", terms=Terms(ttl=0)),
    "a negative ttl": lambda engine: engine.submit("t", terms=Terms(ttl=-1)),
    "an infinite ttl": lambda engine: engine.submit("t", terms=Terms(ttl=math.inf)),
    "a ttl that is no number": lambda engine: engine.submit("t", terms=Terms(ttl=math.nan)),
    "a ttl that is text": lambda engine: engine.submit("t", terms=Terms(ttl="1h")),  # pyright: ignore[reportArgumentType]
    "a ttl that is a bool": lambda engine: engine.submit("t", terms=Terms(ttl=True)),
    "no ttl where that is not allowed": lambda engine: engine.submit("t", terms=Terms(ttl=None)),
    "a negative poll interval": lambda engine: engine.submit("t", terms=Terms(poll_interval=-1)),
}
BAD_LISTS: dict[str, Callable[[Engine], Awaitable[Any]]] = {
    "a page of nothing": lambda engine: engine.list("ann", limit=0),
    "a page of everything": lambda engine: engine.list("ann", limit=10**6),
    "a journal of nothing": lambda engine: engine.journal("any", limit=0),
}


def _endless() -> dict[str, Any]:
    itself: dict[str, Any] = {}
    itself["itself"] = itself
    return itself


@pytest.mark.parametrize("case", [*BAD_SUBMITS, *BAD_LISTS])
async def test_the_engine_refuses(case: str, engine: Engine, store: Store) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        await {**BAD_SUBMITS, **BAD_LISTS}[case](engine)
    assert_helpful(refusal.value)
    assert await store.list(Query(owner=EVERYONE)) == []


async def test_a_worker_refuses_tools_it_does_not_have(engine: Engine, store: Store) -> None:
    async with Worker(engine, [tool(fine)]) as worker:
        with pytest.raises(InvalidArgument, match="there is: fine"):
            await worker.submit("unknown")
        with pytest.raises(InvalidArgument):
            await worker.submit("fine", {"a": object()})
        with pytest.raises(InvalidArgument, match="already"):
            worker.add(tool(fine))
    with pytest.raises(InvalidArgument, match="slots"):
        Worker(engine, [], slots=0)
    with pytest.raises(InvalidArgument, match="grace"):
        Worker(engine, [], grace=-1)
    assert await store.list(Query(owner=EVERYONE)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ttl", timedelta(0)),
        ("lease", timedelta(seconds=-1)),
        ("max_ttl", timedelta.max),
        ("quota", 0),
        ("max_losses", 0),
    ],
)
def test_a_policy_refuses_numbers_nobody_can_live_with(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=name):
        Policy(**{name: value})


@pytest.mark.parametrize(
    ("name", "wish"),
    [("timeout", 0), ("timeout", -1), ("timeout", math.nan), ("poll_interval", 0), ("ttl", -1), ("ttl", "1h")],
)
def test_a_tool_refuses_wishes_that_cannot_be_met(name: str, wish: Any) -> None:
    with pytest.raises(InvalidArgument, match=name):
        tool(fine, **{name: wish})


def test_a_tool_needs_a_function_that_can_do_what_it_is_asked() -> None:
    with pytest.raises(InvalidArgument):
        tool("fine")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgument, match="top level"):
        tool(lambda: None, name="local", runs="process")
    with pytest.raises(InvalidArgument, match="process"):
        tool(fine, runs="process")
    with pytest.raises(InvalidArgument, match="runs"):
        tool(fine, runs="elsewhere")  # pyright: ignore[reportArgumentType]


async def test_arguments_a_function_does_not_take_fail_the_task_with_their_name(engine: Engine) -> None:
    async with Worker(engine, [tool(fine)]) as worker:
        task = await finished(engine, await worker.submit("fine", {"colour": "red"}))
    assert task.failure
    assert "colour" in task.failure.message


@pytest.mark.parametrize("done", [-1, math.nan, math.inf, "half"])
async def test_progress_must_be_a_number_from_zero_up(engine: Engine, done: Any) -> None:
    async def odd(ctx: TaskContext) -> str:
        try:
            await ctx.progress(done)
        except InvalidArgument as refusal:
            return str(refusal)
        return "taken"

    async with Worker(engine, [tool(odd)]) as worker:
        task = await finished(engine, await worker.submit("odd"))
    assert task.status is Status.COMPLETED
    assert b"finite number" in bytes(task.result or encode(None))


async def test_a_question_needs_a_schema_that_is_one(engine: Engine) -> None:
    async def odd(ctx: TaskContext) -> str:
        try:
            await ctx.elicit("Well?", {"type": "nonsense"})
        except InvalidArgument as refusal:
            return str(refusal)
        return "asked"

    async with Worker(engine, [tool(odd)]) as worker:
        task = await finished(engine, await worker.submit("odd"))
    assert b"not valid JSON Schema" in bytes(task.result or encode(None))


@pytest.mark.parametrize("responses", [{"key": object()}, ["key"], None])
async def test_answers_must_be_json_by_key(engine: Engine, responses: Any) -> None:
    async def asks(ctx: TaskContext) -> Any:
        return await ctx.elicit("Well?", {"type": "object"})

    async with Worker(engine, [tool(asks)], grace=0.01) as worker:
        task = await worker.submit("asks")
        task = await engine.wait(task, timeout=20)
        if isinstance(responses, dict):
            responses = dict.fromkeys(task.input_requests, object())
        with pytest.raises(InvalidArgument):
            await engine.answer(task.id, None, responses)
        assert await engine.get(task.id) == task


def assert_helpful(refusal: Exception) -> None:
    """One line, a sentence, not a traceback's leavings."""
    text = str(refusal)
    assert "\n" not in text
    assert len(text) < 300
    assert " " in text
