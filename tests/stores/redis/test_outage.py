"""A store that is away for longer than anyone is patient: work waits for it, and does nothing twice."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import timedelta
from typing import Any

import pytest

from coatcheck import Engine, Policy, Status, Task, TaskContext, Worker, decode, open_engine, tool
from coatcheck.context import OUTPUT, STEP
from coatcheck.stores.redis import link
from tests.stores.redis.helpers import ask, key
from tests.stores.served.helpers import soon, through, until
from tests.stores.served.proxy import Proxy

pytestmark = pytest.mark.anyio

POLICY = Policy(lease=timedelta(minutes=1))
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
YES = {"action": "accept", "content": {"ok": True}}
IMPATIENT = 0.3


@pytest.fixture
async def worker_engine(url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Engine]:
    """Whose store is away when the proxy is shut."""
    async with open_engine(through(proxy.port, url), policy=POLICY) as engine:
        monkeypatch.setattr(link, "_PATIENCE_SECONDS", IMPATIENT)
        yield engine


@pytest.fixture
async def engine(url: str) -> AsyncGenerator[Engine]:
    """Of somebody whose store is there all the time."""
    async with open_engine(url, policy=POLICY) as opened:
        yield opened


@pytest.fixture
def waits(caplog: pytest.LogCaptureFixture) -> Callable[[], int]:
    """Return what says how often work was heard to wait for its store."""
    return lambda: caplog.text.count("waits for its store")


def shut(proxy: Proxy, *, is_reply_lost: bool) -> None:
    """Let nothing through; `is_reply_lost`: only once something more has been written."""
    proxy.is_shut = True
    if is_reply_lost:
        proxy.cut_after(down=0)
    else:
        proxy.cut()


async def all_is_quiet(url: str, engine: Engine, task: Task) -> None:
    """Wait until nothing is on its way: the worker waits for more work, and whoever keeps the lease for news."""
    await until(lambda: ask(url, "SCARD", key(url, "i:work")) and ask(url, "HEXISTS", key(url, f"t:{task.id}"), "l"))
    await engine.get(task.id, task.owner)  # which is answered after all that was asked before


async def outlast(proxy: Proxy, waits: Callable[[], int]) -> None:
    """Let everything through again, but not before work has waited for it."""
    before = waits()
    await until(lambda: waits() > before)
    proxy.cut_after()
    proxy.is_shut = False


@pytest.mark.parametrize("is_reply_lost", [False, True], ids=["nothing arrives", "no answer arrives"])
@pytest.mark.parametrize("kind", [OUTPUT, STEP])
async def test_what_is_recorded_meanwhile_is_recorded_once(
    worker_engine: Engine,
    engine: Engine,
    url: str,
    proxy: Proxy,
    waits: Callable[[], int],
    kind: str,
    *,
    is_reply_lost: bool,
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    @tool
    async def work(task: TaskContext) -> str:
        begun.set()
        await goes_on.wait()
        for part in ("a", "b"):
            await (task.output(part) if kind == OUTPUT else task.step(part, str, part))
        return "done"

    async with Worker(worker_engine, [work]):
        handed_in = await engine.submit("work")
        await soon(begun.wait())
        await all_is_quiet(url, worker_engine, handed_in)
        shut(proxy, is_reply_lost=is_reply_lost)
        goes_on.set()
        await outlast(proxy, waits)
        ended = await soon(engine.finished(handed_in))
    assert (ended.status, decode(ended.result)) == (Status.COMPLETED, "done")
    assert [decode(entry.value) for entry in await engine.journal(ended.id)] == ["a", "b"]


@pytest.mark.parametrize("is_reply_lost", [False, True], ids=["nothing arrives", "no answer arrives"])
async def test_a_question_is_put_once_and_its_answer_is_not_missed(
    worker_engine: Engine, engine: Engine, url: str, proxy: Proxy, waits: Callable[[], int], *, is_reply_lost: bool
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    @tool
    async def work(task: TaskContext) -> Any:
        begun.set()
        await goes_on.wait()
        return (await task.elicit("Go on?", SCHEMA))["content"]

    async with Worker(worker_engine, [work]):
        task = await engine.submit("work")
        await soon(begun.wait())
        await all_is_quiet(url, worker_engine, task)
        shut(proxy, is_reply_lost=is_reply_lost)
        goes_on.set()
        if not is_reply_lost:
            await outlast(proxy, waits)
        task = await soon(asked(engine, task))
        if not is_reply_lost:
            shut(proxy, is_reply_lost=False)  # and now it is away while it waits for the answer
        await engine.answer(task.id, task.owner, dict.fromkeys(task.input_requests, YES))
        await outlast(proxy, waits)
        ended = await soon(engine.finished(task))
    assert (ended.status, decode(ended.result)) == (Status.COMPLETED, {"ok": True})
    assert len(ended.input_responses) == 1


async def asked(engine: Engine, task: Task) -> Task:
    while task.status is not Status.INPUT_REQUIRED:
        task = await engine.wait(task, timeout=60)
    return task
