"""Cancelling against completing: one of them wins, and everyone hears the same for ever after."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.races.conftest import Races, on_every_store
from tests.races.served import Served, at_once, say
from tests.races.wire import DUMB, NEWER, OLDER, Client, Json

pytestmark = pytest.mark.anyio

INVALID_PARAMS = -32602


@on_every_store
async def test_of_cancelling_and_completing_one_wins_and_everyone_hears_the_same(served: Served, races: Races) -> None:
    older, newer, dumb = [await served.client(kind) for kind in (OLDER, NEWER, DUMB)]
    stage = served.stage

    async def race(chance: Random) -> str:
        label = stage.label()
        task_id = await chance.choice((older, newer)).hand_in("work", label=label)
        _, cancelled, also_cancelled, _, waited = await at_once(
            chance,
            say(stage, label, "go"),
            older.of_task("cancel", task_id),
            dumb.call("cancel_task", task_id=task_id),
            newer.of_task("cancel", task_id) if chance.random() < 0.5 else newer.of_task("get", task_id),
            older.of_task("result", task_id),
        )
        end = await _end(older, newer, task_id)
        assert end in ("completed", "cancelled")
        assert [_has_won(cancelled), _has_won(also_cancelled)].count(True) <= (end == "cancelled")
        assert await _collected(older, task_id) == _words(waited), "it says the same for ever"
        assert (_words(waited).get("code") == INVALID_PARAMS) == (end == "cancelled")
        assert stage.runs[label] <= 1
        return end

    await races(race)


async def _end(older: Client, newer: Client, task_id: str) -> str:
    """Return how the task ended, once both generations have said the same."""
    said = {(await client.of_task("get", task_id))["status"] for client in (older, newer)}
    assert len(said) == 1
    return said.pop()


async def _collected(client: Client, task_id: str) -> Json:
    try:
        return await client.of_task("result", task_id)
    except MCPError as error:
        return _words(error)


def _words(answer: Any) -> Json:
    return {"code": answer.code, "message": answer.message} if isinstance(answer, MCPError) else answer


def _has_won(cancelled: Any) -> bool:
    """Whether whoever cancelled was told it was them. Raises if they were told nonsense."""
    if isinstance(cancelled, MCPError):
        assert cancelled.code == INVALID_PARAMS, cancelled
        assert "already" in cancelled.message
        return False
    if cancelled.get("isError"):
        assert "already" in cancelled["content"][0]["text"]
        return False
    shown = cancelled["structuredContent"]["task"] if "structuredContent" in cancelled else cancelled
    assert shown["status"] == "cancelled"
    return True
