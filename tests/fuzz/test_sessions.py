"""Hostile clients of 2025-11-25, in sessions over HTTP: no 500, no sight of another's tasks, nothing left behind."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from coatcheck.server.http.app import http_app
from tests.fuzz.campaign import a_seed
from tests.fuzz.checks import heard_errors, told
from tests.fuzz.leftovers import Leftovers
from tests.fuzz.served import a_server, running
from tests.fuzz.session_campaign import SessionCampaign

pytestmark = pytest.mark.anyio

FEW, MANY = 3_000, 6_000
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
