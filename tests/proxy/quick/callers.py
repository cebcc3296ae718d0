"""Callers of a proxy that write their HTTP requests by hand, of either generation."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from starlette.types import ASGIApp, Message

from tests.proxy.upstreams.hosts import PATIENCE
from tests.proxy.upstreams.puppet import NEWER, OLDER, Json
from tests.sdk.asgi import scope

_numbers = itertools.count(1)
Headers = Mapping[str, str | None]


@dataclass
class Answer:
    """What came back, to the letter."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def messages(self) -> list[Json]:
        """All that was said, whether as events or as a body."""
        if not self.is_stream:
            return [json.loads(self.body)]
        lines = self.body.replace(b"\r\n", b"\n").split(b"\n")
        return [json.loads(line[5:]) for line in lines if line.startswith(b"data:") and line[5:].strip()]

    @property
    def said(self) -> Json:
        """The answer itself, without the id of its request."""
        return {name: value for name, value in self.messages[-1].items() if name != "id"}

    @property
    def result(self) -> Json:
        return self.messages[-1]["result"]


class Posted:
    """A request under way."""

    def __init__(self, app: ASGIApp, verb: str, headers: Mapping[str, str], *parts: bytes) -> None:
        self.answer = Answer()
        self._news = asyncio.Event()
        self._received: asyncio.Queue[Message] = asyncio.Queue()
        for number, part in enumerate(parts, 1):
            self.send(part, more=number < len(parts))
        self.serving = asyncio.ensure_future(app(scope(verb, "/mcp", headers), self._received.get, self._sent))

    def send(self, body: bytes, *, more: bool = False) -> None:
        self._received.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def hang_up(self) -> None:
        self._received.put_nowait({"type": "http.disconnect"})

    async def news(self) -> None:
        """Wait until more of the answer has come."""
        self._news.clear()
        await self._news.wait()

    async def ended(self) -> Answer:
        async with asyncio.timeout(PATIENCE):
            await self.serving
        return self.answer

    async def _sent(self, message: Message) -> None:
        self._news.set()
        if message["type"] == "http.response.start":
            self.answer.status = message["status"]
            self.answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            return
        self.answer.body += message.get("body", b"")
        if not message.get("more_body", False):
            self.hang_up()


class Caller:
    """One client over HTTP."""

    def __init__(self, app: ASGIApp, version: str, capabilities: Json | None = None, name: str = "caller") -> None:
        self.app, self.version, self.capabilities = app, version, capabilities or {}
        self.info = {"name": name, "version": "1"}
        self.session: dict[str, str] = {}

    @property
    def is_modern(self) -> bool:
        return self.version == NEWER

    async def greet(self) -> Caller:
        """Shake hands, if there is a hand to shake."""
        if not self.is_modern:
            params = {"protocolVersion": OLDER, "capabilities": self.capabilities, "clientInfo": self.info}
            answer = await self.post(self.message("initialize", params))
            self.session = {"mcp-session-id": answer.headers["mcp-session-id"]}
            told = await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
            assert told.status == 202, told
        return self

    @property
    def envelope(self) -> Json:
        return {
            PROTOCOL_VERSION_META_KEY: NEWER,
            CLIENT_INFO_META_KEY: self.info,
            CLIENT_CAPABILITIES_META_KEY: self.capabilities,
        }

    def message(self, method: str, params: Json, number: Any = None) -> Json:
        if self.is_modern:
            params = {**params, "_meta": {**params.get("_meta", {}), **self.envelope}}
        return {"jsonrpc": "2.0", "id": number or next(_numbers), "method": method, "params": params}

    def headers(self, method: str = "tools/call", name: str | None = None) -> dict[str, str]:
        given = {
            "host": "127.0.0.1:8000",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": self.version,
            **self.session,
        }
        if self.is_modern:
            given["mcp-method"] = method
            if name is not None:
                given["mcp-name"] = name
        return given

    def begin(self, body: Json | bytes, headers: Headers | None = None, *, is_long: bool = False) -> Posted:
        """Post something. `headers`: what to say otherwise; None, what not to say.

        `is_long`: with something about it that is left to the SDK, but means nothing to it.
        """
        message: Json = body if isinstance(body, dict) else {}
        params: Any = message.get("params")
        name = (
            cast("Json", params).get("name", cast("Json", params).get("taskId")) if isinstance(params, dict) else None
        )
        method = message.get("method", "tools/call")
        said: Headers = {**self.headers(f"{method}", None if name is None else f"{name}"), **(headers or {})}
        if is_long and self.is_modern:
            said = {**said, "mcp-param-any": "thing"}
        kept = {name: value for name, value in said.items() if value is not None}
        written = body if isinstance(body, bytes) else json.dumps(body).encode()
        is_cut = is_long and not self.is_modern
        return Posted(self.app, "POST", kept, *((written[:1], written[1:]) if is_cut else (written,)))

    async def post(self, body: Json | bytes, headers: Headers | None = None, *, is_long: bool = False) -> Answer:
        return await self.begin(body, headers, is_long=is_long).ended()

    def begin_call(self, tool: str, *, is_long: bool = False, number: Any = None, **arguments: Any) -> Posted:
        """Call a tool."""
        params: Json = {"name": f"up__{tool}", "arguments": arguments}
        return self.begin(self.message("tools/call", params, number), is_long=is_long)

    async def call(self, tool: str, *, is_long: bool = False, number: Any = None, **arguments: Any) -> Answer:
        return await self.begin_call(tool, is_long=is_long, number=number, **arguments).ended()

    async def ask(self, method: str, **params: Any) -> Json:
        return (await self.post(self.message(method, params))).messages[-1]

    async def leave(self) -> Answer:
        return await Posted(self.app, "DELETE", self.headers(), b"").ended()
