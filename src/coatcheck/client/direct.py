"""Requests over HTTP on the shortest way: for a connection that was made by the SDK, but beside it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn, cast

import msgspec
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_NAME_HEADER
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, METHOD_NOT_FOUND

from coatcheck.client.http import Trouble, trouble_of
from coatcheck.client.lean_http import Broken, LeanHTTP, Reply
from coatcheck.client.wire import QUESTIONS, Json, Listener

logger = logging.getLogger("coatcheck")
_LATEST_SECONDS = 1.0
_NOWHERE = (301, 302, 303, 307, 308)


class Failed(Exception):
    """There is no answer of the server's, and why."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.reason)
        self.trouble = trouble


class Direct:
    def __init__(self, http: LeanHTTP, listener: Listener) -> None:
        self._http, self._listener = http, listener
        self._ids = 0
        self._errands: set[asyncio.Task[None]] = set()
        self._answering: dict[Any, asyncio.Task[None]] = {}
        """What the server asked, by the ids of its requests."""

    def close(self) -> None:
        for errand in self._errands:
            errand.cancel()
        self._http.close()

    async def request(self, method: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> Json:
        """Send a request and return the result.

        Raises:
            MCPError: The server answered with an error.
            Failed: It did not answer.
        """
        self._ids += 1
        request_id = f"direct-{self._ids}"
        sent = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        try:
            reply = await self._http.post(msgspec.json.encode(sent), headers)
            if reply.is_stream and reply.status < 300:
                return await self._followed(reply, request_id, headers, _name_of(params))
        except Broken as error:
            raise Failed(Trouble(str(error), was_sent=error.was_sent)) from error
        except asyncio.CancelledError:
            if MCP_METHOD_HEADER not in headers:  # in 2026-07-28, to hang up says it all
                self._run(self._tell("notifications/cancelled", {"requestId": request_id}, headers))
            raise
        return _result(reply)

    async def _followed(self, reply: Reply, request_id: str, headers: Mapping[str, str], about: str | None) -> Json:
        """Hear what comes before the answer, and return that."""
        try:
            async for data in reply.events():
                if (said := _object(data)) is None:
                    continue
                if said.get("id") == request_id and "method" not in said:
                    # Most servers end the stream right away, and the connection can be used again.
                    reply.leave(_LATEST_SECONDS)
                    return _read(said)
                self._heard(said, headers, about)
        except asyncio.CancelledError:
            reply.drop()
            raise
        raise Failed(Trouble("the stream ended before the answer came"))

    def _heard(self, message: Json, headers: Mapping[str, str], about: str | None) -> None:
        method: Any = message.get("method")
        given: Any = message.get("params")
        params = cast("Json", given) if isinstance(given, dict) else {}
        if not isinstance(method, str):
            return
        if "id" in message:
            asked: Any = message["id"]
            if not isinstance(asked, str | int):
                return
            answering = self._answering[asked] = self._run(self._answer(asked, method, params, headers, about))
            answering.add_done_callback(lambda _: self._answering.pop(asked, None))
        elif method == "notifications/cancelled":
            cancelled: Any = params.get("requestId")
            if isinstance(cancelled, str | int) and (answering := self._answering.get(cancelled)):
                answering.cancel()
        else:
            self._listener.notified(method, params)

    async def _answer(
        self, request_id: Any, method: str, params: Json, headers: Mapping[str, str], about: str | None
    ) -> None:
        try:
            if method == "ping":
                answer: Json = {"result": {}}
            elif method in QUESTIONS:
                answer = {"result": await self._listener.asked(method, params, request_id, about)}
            else:
                answer = {"error": {"code": METHOD_NOT_FOUND, "message": "Method not found"}}
        except MCPError as error:
            answer = {"error": error.error.model_dump(mode="json", exclude_none=True)}
        except Exception:
            logger.exception("A question of a server could not be answered")
            answer = {"error": {"code": INTERNAL_ERROR, "message": "Internal error"}}
        await self._post({"jsonrpc": "2.0", "id": request_id, **answer}, headers)

    async def _tell(self, method: str, params: Json, headers: Mapping[str, str]) -> None:
        await self._post({"jsonrpc": "2.0", "method": method, "params": params}, headers)

    async def _post(self, message: Json, headers: Mapping[str, str]) -> None:
        about = {name: value for name, value in headers.items() if name not in (MCP_METHOD_HEADER, MCP_NAME_HEADER)}
        with suppress(Broken):  # who lost the connection has lost what was asked on it
            await self._http.post(msgspec.json.encode(message), about)

    def _run(self, errand: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
        return task


def _result(reply: Reply) -> Json:
    if reply.status in _NOWHERE:
        raise Failed(Trouble(f"HTTP {reply.status}", was_sent=False, status=reply.status))
    if reply.status >= 400 and (trouble := trouble_of(reply.status, "", reply.body)):
        raise Failed(trouble)
    message = _object(reply.body)
    if message is None:
        raise Failed(Trouble(f"HTTP {reply.status} with something that is no answer", status=reply.status))
    return _read(message)


def _object(data: bytes) -> Json | None:
    """Read a JSON object; None: it is none. The standard library reads what some servers write, as half a letter."""
    try:
        read: Any = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        try:
            read = json.loads(data, parse_constant=_no_number)
        except (ValueError, RecursionError):
            return None
    return cast("Json", read) if isinstance(read, dict) else None


def _no_number(said: str) -> NoReturn:
    raise ValueError(f"{said} is no number in JSON")


def _read(message: Json) -> Json:
    error: Any = message.get("error")
    if isinstance(error, dict):
        said = cast("Json", error)
        code = said.get("code")
        raise MCPError(code if isinstance(code, int) else INTERNAL_ERROR, str(said.get("message")), said.get("data"))
    result: Any = message.get("result")
    if not isinstance(result, dict):
        raise MCPError(CONNECTION_CLOSED, "The server answered with neither a result nor an error")
    return cast("Json", result)


def _name_of(params: Mapping[str, Any]) -> str | None:
    """Return the name a call has with us, under which its progress is told too."""
    meta: Any = params.get("_meta")
    name = cast("Json", meta).get("progressToken") if isinstance(meta, dict) else None
    return name if isinstance(name, str) else None
