"""What servers have asked, held until the client answers with a tool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST, REQUEST_TIMEOUT

from coatcheck.client.wire import Json
from coatcheck.engine import utc_now
from coatcheck.proxy.activity.events import timestamp
from coatcheck.proxy.activity.ulid import Ulids
from coatcheck.proxy.meta.refusals import REQUEST_NOT_FOUND, ToolRefusal
from coatcheck.proxy.sessions.witness import About
from coatcheck.proxy.states import ELICITATIONS, SAMPLINGS, RequestEvent, Table, settle

TABLES: dict[str, Table] = {"elicitation/create": ELICITATIONS, "sampling/createMessage": SAMPLINGS}
Told = Callable[["PendingRequest"], None]


@dataclass(eq=False, slots=True)
class PendingRequest:
    id: str
    server: str
    method: str
    params: Json
    at: datetime
    about: About
    """Which task it is of, if that can be told: the server keeps it, and will want to know whatever is lost."""
    answer: asyncio.Future[Json] = field(repr=False)
    state: str = "pending"
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)

    @property
    def task_id(self) -> str | None:
        return self.about() if self.about else None

    @property
    def table(self) -> Table:
        return TABLES[self.method]

    def brief(self) -> Json:
        """Return what stands in every answer as long as it is pending."""
        brief: Json = {"requestId": self.id, "server": self.server}
        if self.method == "elicitation/create":
            brief["message"] = self.params.get("message", "")
        if task_id := self.task_id:
            brief["taskId"] = task_id
        return brief

    def to_json(self) -> Json:
        return {**self.brief(), "timestamp": timestamp(self.at), "params": self.params}


class PendingRequests:
    def __init__(self, timeout: float, arrived: Told, expired: Told) -> None:
        self._timeout, self._arrived, self._expired = timeout, arrived, expired
        self._held: dict[str, PendingRequest] = {}
        self._ids = Ulids()

    def list(self, method: str, server: str | None = None) -> list[PendingRequest]:
        return [
            request
            for request in self._held.values()
            if request.method == method and (server is None or request.server == server)
        ]

    async def hold(self, server: str, method: str, params: Json, about: About = None) -> Json:
        """Return the client's answer, whenever it comes.

        Raises:
            MCPError: There will be none.
        """
        if method not in TABLES:
            raise MCPError(INVALID_REQUEST, f"The client cannot be asked this ({method})")
        loop = asyncio.get_running_loop()
        request = PendingRequest(self._ids.new(), server, method, params, utc_now(), about, loop.create_future())
        request.timer = loop.call_later(self._timeout, self._expire, request)
        self._held[request.id] = request
        self._arrived(request)
        try:
            return await request.answer
        finally:
            if request.state == "pending":
                self._close(request, RequestEvent.RETRACT)

    def respond(self, request_id: str, method: str, event: str, answer: Json) -> PendingRequest:
        """Send an answer to the server that asked.

        Raises:
            ToolRefusal: Nothing of that id is pending.
        """
        request = self.get(request_id, method)
        self._close(request, event)
        request.answer.set_result(answer)
        return request

    def reject(self, request_id: str, method: str, reason: str) -> PendingRequest:
        """Tell the server that nobody will answer."""
        request = self.get(request_id, method)
        self._fail(request, RequestEvent.WITHDRAW, MCPError(INVALID_REQUEST, reason))
        return request

    def lost(self, server: str) -> None:
        """Give up what a server asked over a connection that is gone."""
        for request in [each for each in self._held.values() if each.server == server]:
            if request.about is None:
                reason = MCPError(INVALID_REQUEST, "The connection was lost")
                self._fail(request, RequestEvent.DISCONNECT, reason)

    def close(self) -> None:
        for request in list(self._held.values()):
            self._fail(request, RequestEvent.LEAVE, MCPError(INVALID_REQUEST, "The client's session has ended"))

    def get(self, request_id: str, method: str) -> PendingRequest:
        """Raises ToolRefusal if nothing of that id is pending."""
        request = self._held.get(request_id)
        if request is None or request.method != method:
            what = TABLES[method].name
            raise ToolRefusal(
                REQUEST_NOT_FOUND,
                f"There is no {what} {request_id!r}, or it has been answered; look at what is pending.",
            )
        return request

    def _expire(self, request: PendingRequest) -> None:
        error = MCPError(REQUEST_TIMEOUT, f"Nobody answered within {self._timeout:g} seconds")
        self._fail(request, RequestEvent.EXPIRE, error)
        self._expired(request)

    def _fail(self, request: PendingRequest, event: str, error: Exception) -> None:
        self._close(request, event)
        if not request.answer.done():
            request.answer.set_exception(error)
            request.answer.exception()  # looked at, in case nobody waits any more

    def _close(self, request: PendingRequest, event: str) -> None:
        request.state = settle(request.table, request.state, event)
        self._held.pop(request.id, None)
        if request.timer:
            request.timer.cancel()
            request.timer = None


def briefs(requests: list[PendingRequest]) -> list[Any]:
    return [request.brief() for request in requests]
