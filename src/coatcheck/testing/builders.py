"""Tasks to test with, and a moment to start from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from coatcheck.payload import encode
from coatcheck.task import Entry, Task, ToolCall

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_task(
    task_id: str = "a",
    owner: str | None = "ann",
    *,
    age: int = 0,
    tool: str = "slow",
    resumable: bool = False,
    idempotency_key: str | None = None,
) -> Task:
    """Return a waiting task, `age` seconds old at NOW, that expires an hour after NOW."""
    born = NOW - timedelta(seconds=age)
    return Task(
        id=task_id,
        owner=owner,
        call=ToolCall(tool=tool, arguments=encode({"n": 1, "text": "caf\u00e9"})),
        created_at=born,
        updated_at=born,
        expires_at=NOW + timedelta(hours=1),
        poll_interval=timedelta(seconds=1),
        resumable=resumable,
        idempotency_key=idempotency_key,
    )


def an_entry(value: object = 1, key: str = "step:a#1", kind: str = "step") -> Entry:
    return Entry(kind=kind, key=key, value=encode(value), at=NOW)
