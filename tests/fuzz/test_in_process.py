"""Tens of thousands of messages straight to the application: no 500, no hang, no leak, no row changed."""

from __future__ import annotations

import asyncio
import base64
import gc
from pathlib import Path
from random import Random

import pytest

from coatcheck.dialects.v2026 import VERSION
from coatcheck.server.http.app import http_app
from tests.fuzz.asgi import PATIENCE, Answer, send
from tests.fuzz.campaign import Campaign, a_seed
from tests.fuzz.checks import heard_errors, told
from tests.fuzz.messages import Fuzzer, Message
from tests.fuzz.served import ALICE, a_server, owner, populate, running
from tests.fuzz.twins import a_twin

pytestmark = pytest.mark.anyio

FEW, MANY, PAIRS = 1_000, 8_000, 2_000
"""Of `MANY` there are eight: with what the other modules here send, a hundred thousand messages, new in every run."""
MOST_LEFT = 150
"""Tasks of the event loop: those of the server, and of sessions that clients of the older generation left open."""
TOKENS = {None: (None,), "bob": ("token-of-bob",) * 8 + (None, "token-of-nobody")}
"""What an attacker shows in place of a password, by who it is."""


async def attack(store: str, me: str | None, messages: int, *, is_as_served: bool = False) -> None:
    """`is_as_served`: the application of `coatcheck serve`, in place of the server's own."""
    seed = a_seed()
    server = a_server(store, is_authenticated=me is not None)
    app = http_app(server, server.tasks) if is_as_served else server.streamable_http_app(json_response=True)
    with heard_errors() as errors:
        async with running(app):
            engine = server.tasks.running.engine
            targets, fixed = await populate(engine, owner(me), ALICE)
            report = await Campaign(app, engine, Fuzzer(seed, targets, TOKENS[me]), fixed, owner(me)).run(messages)
            await everything_ended()
        gc.collect()
    print(report)
    assert not report.faults, report
    assert [told(error) for error in errors] == []


async def everything_ended() -> None:
    """Wait until the streams and bodies of a campaign are gone; none may stay."""
    async with asyncio.timeout(PATIENCE):
        while len(asyncio.all_tasks()) > MOST_LEFT:  # noqa: ASYNC110, as nobody tells of the last one
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("me", TOKENS)
async def test_hostile_messages_do_no_harm(me: str | None) -> None:
    await attack("memory://", me, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("me", TOKENS)
async def test_tens_of_thousands_of_hostile_messages_do_no_harm(me: str | None, part: int, tmp_path: Path) -> None:
    store = "memory://" if part % 2 else f"sqlite:///{tmp_path}/tasks.db"
    await attack(store, me, MANY, is_as_served=part >= 2)


def is_modern(message: Message) -> bool:
    """Whether it is for the generation that has tasks; the older one quotes what it refuses, cut to some length."""
    return [value for name, value in message.headers if name == b"mcp-protocol-version"] == [VERSION.encode()]


def seen(answer: Answer, task_id: str) -> tuple[int, bytes]:
    return answer.status, answer.body.replace(task_id.encode(), b"?")


@pytest.mark.parametrize("me", TOKENS)
async def test_the_task_of_another_looks_like_one_that_never_was(me: str | None) -> None:
    seed = a_seed()
    server = a_server("memory://", is_authenticated=me is not None)
    app = server.streamable_http_app(json_response=True)
    compared, chance = 0, Random(seed)
    never = base64.urlsafe_b64encode(chance.randbytes(27)).decode()  # as long as an id, and of the seed
    async with running(app):
        targets, _ = await populate(server.tasks.running.engine, owner(me), ALICE)
        targets.open = targets.ended = targets.expired = targets.foreign
        fuzzer = Fuzzer(seed, targets, TOKENS[me])
        with heard_errors():
            for _ in range(PAIRS):
                foreign, message = chance.choice(targets.foreign), fuzzer.message()
                if message.names(foreign) and not message.is_cut and is_modern(message):
                    twin = a_twin(message, foreign, never)
                    theirs, nobodys = await send(app, message), await send(app, twin)
                    is_alike = seen(theirs, foreign) == seen(nobodys, never)
                    assert is_alike, f"{foreign}: {message}\n  {theirs}\n{never}: {twin}\n  {nobodys}"
                    compared += 1
    assert compared > PAIRS / 50
