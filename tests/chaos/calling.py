"""Requests of either generation to whichever server, as HTTP has them; most may get no answer, and say so."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from itertools import count

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY

from tests.chaos.nodes import Node
from tests.races.wire import NEWER, OLDER, Json, Kind
from tests.server.wire import NAMED

_STREAM = "text/event-stream"
_NOT_AVAILABLE = ("not available just now", "ask for its result again")
"""What stands in errors that say nothing of a task."""


class NoAnswer(Exception):
    """The request may have been carried out, or not."""


class Caller:
    """One client, of one generation, that takes part in all servers' sessions as it goes."""

    def __init__(self, kind: Kind, http: httpx2.AsyncClient) -> None:
        self.kind = kind
        self._http = http
        self._ids = count(1)
        self._sessions: dict[str, str] = {}

    async def request(self, node: Node, method: str, params: Json, timeout: float = 5.0) -> Json:
        """Return the result.

        Raises:
            MCPError: The server refuses.
            NoAnswer: There is none, or it is that there is none just now.
        """
        async with aclosing(self.messages(node, method, params, timeout)) as messages:
            async for message in messages:
                if "result" in message:
                    return message["result"]
                if error := message.get("error"):
                    if any(word in error["message"] for word in _NOT_AVAILABLE):
                        raise NoAnswer(error["message"])
                    raise MCPError(error["code"], error["message"], error.get("data"))
        raise NoAnswer("the stream ended")

    async def messages(self, node: Node, method: str, params: Json, timeout: float) -> AsyncGenerator[Json]:
        """Give what is answered, message by message, each within `timeout` seconds.

        Raises:
            NoAnswer: It breaks off.
        """
        try:
            if not self.kind.is_modern and node.url not in self._sessions:
                await self._greet(node)
            async with aclosing(self._post(node, self._message(method, params), timeout)) as messages:
                async for message in messages:
                    yield message
        except httpx2.HTTPError as error:
            raise NoAnswer(repr(error)) from error

    async def _greet(self, node: Node) -> None:
        hello = {
            "protocolVersion": self.kind.version,
            "capabilities": self.kind.capabilities,
            "clientInfo": {"name": "chaos", "version": "1"},
        }
        async with aclosing(self._post(node, self._message("initialize", hello), 5.0)) as messages:
            async for _ in messages:
                pass
        async with aclosing(self._post(node, {"jsonrpc": "2.0", "method": "notifications/initialized"}, 5.0)) as none:
            async for _ in none:
                pass

    def _message(self, method: str, params: Json) -> Json:
        given = dict(params)
        if self.kind.is_modern:
            meta = {
                PROTOCOL_VERSION_META_KEY: self.kind.version,
                CLIENT_CAPABILITIES_META_KEY: self.kind.capabilities,
            }
            given["_meta"] = {**meta, **given.get("_meta", {})}
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": given}

    def _headers(self, node: Node, message: Json) -> Mapping[str, str]:
        headers = {"accept": f"application/json, {_STREAM}", "mcp-protocol-version": self.kind.version}
        if self.kind.is_modern:
            headers["mcp-method"] = message["method"]
            if name := NAMED.get(message["method"]):
                headers["mcp-name"] = message["params"][name]
        elif session := self._sessions.get(node.url):
            headers["mcp-session-id"] = session
        return headers

    async def _post(self, node: Node, message: Json, timeout: float) -> AsyncGenerator[Json]:
        headers, limits = self._headers(node, message), httpx2.Timeout(5.0, read=timeout)
        async with self._http.stream("POST", node.url, json=message, headers=headers, timeout=limits) as response:
            if response.status_code == 404:
                self._sessions.pop(node.url, None)  # it was of a process that is no more
            if session := response.headers.get("mcp-session-id"):
                self._sessions[node.url] = session
            if response.headers.get("content-type", "").startswith(_STREAM):
                async for line in response.aiter_lines():
                    if line.startswith("data:") and (data := line.removeprefix("data:").strip()):
                        yield json.loads(data)
            elif response.status_code < 500 and response.status_code != 404:
                if body := await response.aread():
                    yield json.loads(body)
            else:
                raise NoAnswer(f"HTTP {response.status_code}")


def both_generations(http: httpx2.AsyncClient) -> dict[str, Caller]:
    return {kind.version: Caller(kind, http) for kind in (NEWER, OLDER)}
