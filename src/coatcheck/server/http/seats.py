"""`tasks/result` of 2025-11-25 over HTTP, for those who wait: a stream kept open takes no request of the SDK's.

The SDK sees the request first, with everything it checks. Only then, if there is nothing to do but wait, its answer is
put aside and the stream kept here. Once the task asks something, the request is given to the SDK anew, which can ask.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, cast

import msgspec
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import RequestId
from mcp_types.jsonrpc import INVALID_REQUEST
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coatcheck.dialects import v2025
from coatcheck.dialects.words import REQUEST_CANCELLED
from coatcheck.server.failures import as_protocol_errors
from coatcheck.server.http.answer import Answer
from coatcheck.server.http.live_sessions import LiveSessions
from coatcheck.server.http.observers import Observers
from coatcheck.server.http.replay import read_body, replay
from coatcheck.server.tasks import Tasks
from coatcheck.server.waiting.seat import SEAT, Seat
from coatcheck.task import Task

_LONGEST_LOOK = 65_536
_PING_SECONDS = 25.0
"""Below the thirty seconds after which the least patient gateways cut a silent stream."""
_WAIT, _CANCEL = b"tasks/result", b"notifications/cancelled"
Place = tuple[str, RequestId]
"""A session, and a request in it."""


_write = msgspec.json.Encoder().encode


class Seats:
    """Stands around the SDK's endpoint."""

    def __init__(self, app: ASGIApp, server: MCPServer[Any], tasks: Tasks) -> None:
        self._app, self._tasks = app, tasks
        self._observers = Observers(server)
        manager = server.session_manager
        self._is_resumable = manager.event_store is not None  # such a stream is the SDK's to look after
        self._sessions = LiveSessions(app, manager.session_idle_timeout)
        self._last: tuple[Task, bytes] | None = None
        self._taken: dict[Place, asyncio.Future[Task]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = _session_of(scope)
        if session is None or (scope["method"] == "POST" and self._is_resumable):
            await self._app(scope, receive, send)
        elif scope["method"] == "POST":
            await self._post(session, scope, receive, send)
        else:
            await self._app(scope, receive, self._telling(session, scope["method"], send))

    def _telling(self, session: str, method: str, send: Send) -> Send:
        """Return a `send` that tells when a session's standing stream is open, or the session has ended."""

        async def telling(message: Message) -> None:
            await send(message)
            if message["type"] != "http.response.start" or message["status"] != 200 or not self._tasks.is_running:
                return
            if method == "GET":  # whoever has to ask may ask now
                self._tasks.running.vigils.relays.stream_opened(session)
            elif method == "DELETE":
                self._tasks.running.news.session_ended(session)
                for at in [at for at in self._taken if at[0] == session]:
                    self._vacate(at, MCPError(INVALID_REQUEST, "Session has been terminated"))

        return telling

    async def _post(self, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        messages = await read_body(receive, _LONGEST_LOOK)
        body = b"".join(message.get("body", b"") for message in messages)
        is_whole = not messages[-1].get("more_body", False)
        request = _request_of(body) if is_whole and (_WAIT in body or _CANCEL in body) else {}
        if request.get("method") == "tasks/result" and not self._observers:
            await self._seat(session, scope, messages, receive, send)
            return
        match request:
            case {"method": "notifications/cancelled", "params": {"requestId": str() | int() as request_id}}:
                send = self._cancelling((session, request_id), send)
            case _:
                pass
        await self._app(scope, replay(messages, receive), send)

    def _cancelling(self, at: Place, send: Send) -> Send:
        """Return a `send` that ends a wait once the SDK has accepted that its client cancelled it."""

        async def cancelling(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.start" and message["status"] == 202:
                self._vacate(at, MCPError(REQUEST_CANCELLED, "Request cancelled"))

        return cancelling

    async def _seat(self, session: str, scope: Scope, messages: list[Message], receive: Receive, send: Send) -> None:
        answer = Answer(send)
        seat = Seat(answer.let_through)
        await self._app({**scope, SEAT: seat}, replay(messages, receive), answer)
        if seat.task is None or seat.request_id is None:
            await answer.let_through()
            return
        await self._wait((session, seat.request_id), scope, seat.task, answer, receive)
        if answer.is_unfinished:  # the task asks: the SDK can do that
            await self._app(scope, replay(messages, receive), answer)

    async def _wait(self, at: Place, scope: Scope, task: Task, answer: Answer, receive: Receive) -> None:
        await answer.open_stream()
        seat = self._taken[at] = self._tasks.running.vigils.crowds.join(task)
        leaving = asyncio.ensure_future(receive())
        try:
            while not seat.done():
                await asyncio.wait((seat, leaving), timeout=_PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if leaving.done() and not seat.done():
                    answer.is_unfinished = False
                    return
                if not seat.done():
                    await answer.ping()
                    await self._sessions.touch(scope)
            if tail := self._tail(seat):
                await answer.finish(b'{"jsonrpc":"2.0","id":%b,%b}' % (_write(at[1]), tail))
        finally:
            if self._taken.get(at) is seat:
                del self._taken[at]
            seat.cancel()
            leaving.cancel()
            with suppress(asyncio.CancelledError):
                await leaving

    def _vacate(self, at: Place, reason: MCPError) -> None:
        seat = self._taken.get(at)
        if seat and not seat.done():
            seat.set_exception(reason)

    def _tail(self, seat: asyncio.Future[Task]) -> bytes | None:
        """Return what follows the id in the answer, made once for all who get it; None: the task asks something."""
        try:
            with as_protocol_errors():
                task = seat.result()
        except MCPError as error:
            return b'"error":' + _write(error.error.model_dump(by_alias=True, mode="json", exclude_none=True))
        if not task.status.is_terminal:
            return None
        if self._last is None or self._last[0] is not task:
            ended = v2025.error_of(task)
            tail = b'"error":' + _write(ended) if ended else b'"result":' + _write(v2025.write_result(task))
            self._last = (task, tail)
        return self._last[1]


def _session_of(scope: Scope) -> str | None:
    headers = scope["headers"] if scope["type"] == "http" else ()
    return next((value.decode("latin-1") for name, value in headers if name == b"mcp-session-id"), None)


def _request_of(body: bytes) -> dict[str, Any]:
    """Return a request as the SDK reads it, as far as it can be read."""
    try:
        request: Any = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", request) if isinstance(request, dict) else {}
