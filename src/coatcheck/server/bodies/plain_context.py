"""The `TaskContext` of a call that is no task: the same verbs, remembering nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from mcp.server.context import ServerRequestContext

from coatcheck.context import TaskContext
from coatcheck.errors import InvalidArgument
from coatcheck.payload import Payload, encode
from coatcheck.task import Task, ToolCall


class PlainContext(TaskContext):
    """So that one body serves clients with and without tasks. Its `task` was never written and has no id."""

    __slots__ = ("_progress", "request")

    def __init__(self, tool: str, request: ServerRequestContext[Any, Any] | None = None) -> None:
        """`request` is the one that is being served, if it is one."""
        self.request = request
        self._progress = request.session.report_progress if request else None
        self.is_stopping = False
        now = datetime.now(UTC)
        self.task = Task(
            id="",
            owner=None,
            call=ToolCall(tool=tool),
            created_at=now,
            updated_at=now,
            expires_at=None,
            poll_interval=timedelta(seconds=1),
            attempt=1,
        )

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        if self._progress:
            await self._progress(done, total, message)

    async def note(self, message: str) -> None:
        """There is nobody to tell."""

    async def flush(self) -> None:
        """There is nothing to write."""

    def step_key(self, name: str) -> str:
        return name

    async def recall(self, key: str) -> Payload | None:
        return None

    async def record(self, key: str, value: Any) -> Payload:
        return encode(value)

    async def output(self, chunk: Any) -> None:
        """The result alone is the answer."""

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any],
        answer_schema: Mapping[str, Any] | None = None,
        *,
        judges_itself: bool = False,
        key: str | None = None,
    ) -> Any:
        raise InvalidArgument(
            "This call is not a task, so it cannot ask through TaskContext; use the SDK's Context.elicit, "
            "or let the tool's calls be tasks with task=True."
        )
