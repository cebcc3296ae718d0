"""What a server says of its own accord, passed on to whom it concerns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, cast
from weakref import WeakValueDictionary

from mcp.shared.exceptions import MCPError

from coatcheck.client.connection import Connection
from coatcheck.client.news import News
from coatcheck.client.questions import Questions
from coatcheck.client.wire import Json, Params
from coatcheck.dialects.seen import Question, read_progress, read_task
from coatcheck.dialects.words import INTERNAL_ERROR, RELATED_TASK
from coatcheck.errors import NotAnswered, ProtocolViolation
from coatcheck.task import Progress

_TASK_NEWS = ("notifications/tasks", "notifications/tasks/status")
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


class Call(Protocol):
    """Someone who wants to know how far a call has got."""

    def progressed(self, progress: Progress, message: str | None) -> None: ...


class Hearing:
    def __init__(self, news: News, connection: Callable[[], Connection | None]) -> None:
        self._news, self._connection = news, connection
        self.questions: WeakValueDictionary[str, Questions] = WeakValueDictionary()
        """Of tasks, by id."""
        self.calls: WeakValueDictionary[str, Call] = WeakValueDictionary()
        """By progress token."""
        self.acknowledged: Callable[[Params], None] = lambda _: None
        self.tools_changed: Callable[[], None] = lambda: None
        self.overhears: Callable[[str, Params], None] = lambda method, params: None
        """Told of everything that is no news of a task."""
        self.ended: Callable[[], None] = lambda: None

    def notified(self, method: str, params: Params) -> bool:
        match method:
            case "notifications/progress":
                self._progressed(params or {})
            case "notifications/tools/list_changed":
                self.tools_changed()
            case _ if method in _TASK_NEWS:
                with suppress(ProtocolViolation):
                    self._news.tell(read_task(dict(params or {})))
                return True
            case _ if method == _ACKNOWLEDGED:
                self.acknowledged(params)
            case _:
                pass
        self.overhears(method, params)
        return False

    async def asked(self, method: str, params: Json, request_id: str | int, about: str | None = None) -> Json:
        """Answer a question that the server asks directly, for a task or for a call."""
        question, connection = Question(method, params), self._connection()
        if connection is None:
            raise MCPError(INTERNAL_ERROR, "There is nobody to ask yet")
        try:
            if questions := self.questions.get(_related(params)):
                return await questions.ask(question)
            return await connection.put(method, params, request_id, about)
        except NotAnswered as error:
            raise MCPError(error.code, error.message, error.data) from error

    def _progressed(self, params: Any) -> None:
        token, progress, message = params.get("progressToken"), read_progress(params), params.get("message")
        if progress and (call := self.calls.get(str(token))):
            call.progressed(progress, message if isinstance(message, str) else None)


def _related(params: Json) -> str:
    meta: Any = params.get("_meta")
    related: Any = cast("Json", meta).get(RELATED_TASK) if isinstance(meta, dict) else None
    task_id = cast("Json", related).get("taskId") if isinstance(related, dict) else None
    return task_id if isinstance(task_id, str) else ""
