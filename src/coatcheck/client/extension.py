"""Tasks for the SDK's own client: `mcp.Client(…, extensions=[TasksExtension()])`, and nothing else changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import mcp_types as types
from mcp.client.extension import ClaimContext, ClientExtension, NotificationBinding, ResultClaim
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict

from coatcheck.client.asking import put
from coatcheck.client.channel import Channel
from coatcheck.client.handle import TaskHandle
from coatcheck.client.keeping import Keeping
from coatcheck.client.news import News
from coatcheck.client.push import Push
from coatcheck.client.questions import Questions
from coatcheck.client.remote import RemoteTask
from coatcheck.client.wire import Json
from coatcheck.dialects import v2026
from coatcheck.dialects.seen import Question, Snapshot, read_task
from coatcheck.errors import ToolFailed

T = TypeVar("T")


class _Created(types.Result):
    """What a server answers with when a call has become a task."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = "task"


class _Notified(types.NotificationParams):
    model_config = ConfigDict(extra="allow")


class _Anything(types.Result):
    model_config = ConfigDict(extra="allow")


class _Request(types.Request[dict[str, Any], str]):
    """A request that is sent as it is."""


class _OfTask(_Request):
    name_param = "taskId"


class TasksExtension(ClientExtension):
    """The tasks of 2026-07-28 for `mcp.Client`: calls that become tasks are followed to their end.

    What a task asks goes to the client's own callbacks. One extension serves one client.
    """

    identifier = v2026.EXTENSION

    def __init__(
        self, *, cancel_on_abandon: bool = False, on_change: Callable[[Snapshot], object] | None = None
    ) -> None:
        """`cancel_on_abandon`: whether to cancel a task whose call is cancelled. `on_change`: told of every change."""
        self._cancels, self._on_change = cancel_on_abandon, on_change
        self._news = News()

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=_Created, resolve=self._resolve)]

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        return [NotificationBinding(method="notifications/tasks", params_type=_Notified, handler=self._notified)]

    async def _notified(self, params: _Notified) -> None:
        self._news.tell(read_task(params.model_dump(by_alias=True, mode="json")))

    async def _resolve(self, created: _Created, context: ClaimContext) -> types.CallToolResult:
        snapshot = read_task(created.model_dump(by_alias=True, mode="json"))
        line = _SessionLine(_SessionChannel(context.session, context.read_timeout_seconds))
        keeping = Keeping(None, snapshot.id)
        questions = Questions(partial(line.put, snapshot.id), keeping, lambda: 0)
        push = Push(line, self._news)
        task = RemoteTask(snapshot, line, self._news, push, questions, is_known=True)
        handle = TaskHandle[types.CallToolResult](context.tool_name, task, keeping, _read)
        handle.on_change = self._on_change
        try:
            return await handle.result()
        except ToolFailed as error:  # as the SDK tells of errors that answer a call
            code = types.INTERNAL_ERROR if error.code is None else error.code
            raise MCPError(code, error.message, error.data) from error
        except asyncio.CancelledError:
            if self._cancels:
                await asyncio.shield(handle.cancel())
            raise
        finally:
            await push.close()
            await handle.close()


async def _read(raw: Json) -> types.CallToolResult:
    return types.CallToolResult.model_validate(raw, by_name=False)


class _SessionChannel:
    """The SDK's session as a connection."""

    version, is_modern, has_tasks, takes_keys = v2026.VERSION, True, True, False

    def __init__(self, session: ClientSession, timeout: float | None) -> None:
        self._session, self._timeout = session, timeout

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        name: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Json:
        kind = _Request if name is None else _OfTask
        request = kind(method=method, params=dict(params))
        answer = await self._session.send_request(request, _Anything, timeout and self._timeout)
        return answer.model_dump(by_alias=True, mode="json")

    async def put(self, method: str, params: Json, request_id: str | int, about: str | None = None) -> Json:
        return await put(self._session, method, params, request_id)

    def can_answer(self, method: str) -> bool:
        return True  # a session without a callback answers with an error


class _SessionLine:
    """A session that is neither lost nor found again: that is up to whoever opened it."""

    losses = 0

    def __init__(self, channel: _SessionChannel) -> None:
        self.connection: Channel = channel

    async def open(self) -> Channel:
        return self.connection

    async def run(self, operation: Callable[[Channel], Awaitable[T]], *, is_repeatable: bool = True) -> T:
        return await operation(self.connection)

    async def put(self, task_id: str, question: Question) -> Json:
        return await self.connection.put(question.method, dict(question.params), task_id)
