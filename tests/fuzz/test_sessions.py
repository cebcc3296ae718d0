"""Hostile clients of 2025-11-25, in sessions over HTTP: no 500, no sight of another's tasks, nothing left behind."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from coatcheck.ids import Ids
from coatcheck.server.http.app import http_app
from tests.fuzz.asgi import Answer, send
from tests.fuzz.campaign import a_seed
from tests.fuzz.checks import created, heard_errors, told
from tests.fuzz.leftovers import Leftovers
from tests.fuzz.older import ASKING, HELLOS
from tests.fuzz.served import ALICE, a_server, owner_in, populate, running
from tests.fuzz.session_campaign import SessionCampaign
from tests.fuzz.sessions import open_session
from tests.fuzz.twins import a_twin

pytestmark = pytest.mark.anyio

FEW, MANY, PAIRS = 200, 2_500, 500
USERS = (None, "bob")


async def attack(store: str, user: str | None, messages: int, *, has_streams: bool) -> None:
    """`has_streams`: each request is answered on a stream of its own, as `coatcheck serve` does it; else in JSON."""
    seed = a_seed()
    server = a_server(store, is_authenticated=user is not None)
    app = http_app(server, server.tasks) if has_streams else server.streamable_http_app(json_response=True)
    with heard_errors() as errors:
        async with running(app):
            leftovers = Leftovers(server)
            engine = server.tasks.running.engine
            report = await SessionCampaign(app, engine, seed, user, has_streams=has_streams).run(messages)
            left = await leftovers.after_all()
        gc.collect()
    print(report)
    assert left == []
    assert not report.faults, report
    assert [told(error) for error in errors] == []


@pytest.mark.parametrize("has_streams", [True, False], ids=["streams", "json"])
@pytest.mark.parametrize("user", USERS)
async def test_hostile_sessions_do_no_harm(user: str | None, has_streams: bool) -> None:
    await attack("memory://", user, FEW, has_streams=has_streams)


@pytest.mark.slow
@pytest.mark.parametrize("has_streams", [True, False], ids=["streams", "json"])
@pytest.mark.parametrize("user", USERS)
async def test_thousands_of_messages_in_hostile_sessions_do_no_harm(
    user: str | None, has_streams: bool, tmp_path: Path
) -> None:
    await attack(f"sqlite:///{tmp_path}/tasks.db", user, MANY, has_streams=has_streams)


def told_apart(answer: Answer, task_id: str) -> tuple[int, bytes]:
    """Return what must not differ. The SDK quotes what it refuses to read, cut to some length."""
    is_quoted = b"validation error" in answer.body
    return answer.status, b"" if is_quoted else answer.body.replace(task_id.encode(), b"?")


@pytest.mark.parametrize("user", USERS)
async def test_the_task_of_another_session_looks_like_one_that_never_was(user: str | None) -> None:
    seed = a_seed()
    server = a_server("memory://", is_authenticated=user is not None)
    app = server.streamable_http_app(json_response=True)
    tokens = (None, None) if user is None else (f"token-of-{user}", "token-of-alice")
    never, compared = Ids().new(), 0
    async with running(app):
        mine, theirs = [await open_session(app, seed, *HELLOS[0], token=token) for token in tokens]
        victim = owner_in(theirs.id) if user is None else ALICE[0]
        targets, _ = await populate(server.tasks.running.engine, victim, [victim])
        targets.open = targets.ended = targets.expired = targets.guessed = targets.foreign
        mine.fuzzer.targets = targets
        with heard_errors():
            for _ in range(PAIRS):
                message = mine.fuzzer.message()
                named = [task_id for task_id in targets.foreign if message.names(task_id)]
                if len(named) == 1 and not message.is_cut and not any(word in message.body for word in ASKING):
                    known, unknown = [await send(app, each) for each in (message, a_twin(message, named[0], never))]
                    if created(known) is None:  # a task of its own, made twice
                        assert told_apart(known, named[0]) == told_apart(unknown, never), message
                        compared += 1
        await mine.end()
        await theirs.end()
    assert compared > PAIRS / 20
