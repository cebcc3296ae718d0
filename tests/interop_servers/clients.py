"""Our client, with callbacks that answer and remember what they were asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import mcp_types as types

from coatcheck import Client
from coatcheck.client import Snapshot
from tests.processes import PATIENCE

T = TypeVar("T")
Connect = Callable[..., AbstractAsyncContextManager[Client]]
"""Connects a client to a target, with the options of `Client`."""

ADA: Mapping[str, Any] = {"name": "Ada"}


class Answers:
    """Someone who answers whatever is asked, always the same."""

    def __init__(self, content: Mapping[str, Any] = ADA, action: str = "accept") -> None:
        self.questions: list[str] = []
        self._result = types.ElicitResult.model_validate(
            {"action": action, "content": dict(content) if action == "accept" else None}
        )

    async def elicit(self, _: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.questions.append(params.message)
        return self._result

    async def sample(self, _: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        content = params.messages[0].content
        assert isinstance(content, types.TextContent)
        self.questions.append(content.text)
        said = types.TextContent(type="text", text="Something")
        return types.CreateMessageResult(role="assistant", model="none", content=said)

    @property
    def callbacks(self) -> dict[str, Any]:
        return {"elicitation_callback": self.elicit, "sampling_callback": self.sample}


def connecting(folder: Path) -> Connect:
    """Let clients keep their ledger in a folder, and do what they do in a bounded time."""

    @asynccontextmanager
    async def connect(target: Any, **options: Any) -> AsyncGenerator[Client]:
        given: dict[str, Any] = {"ledger": folder / "ledger.db", "patience": PATIENCE / 3, **options}
        async with asyncio.timeout(PATIENCE), Client(target, **given) as client:
            yield client

    return connect


def progress(heard: Sequence[Snapshot]) -> list[tuple[float, float | None]]:
    """Return how far it was said to be, each time that changed."""
    said = [(snapshot.progress.done, snapshot.progress.total) for snapshot in heard if snapshot.progress]
    return [key for key, _ in groupby(said)]


async def together(*calls: Coroutine[Any, Any, T]) -> list[T]:
    """Return what they return. If one fails, none of the others is left waiting."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call) for call in calls]
    return [task.result() for task in tasks]
