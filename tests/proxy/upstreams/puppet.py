"""A server that speaks JSON by hand: it keeps what it is sent, and says to the letter what a test wants it to say."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from tests.proxy.upstreams.hosts import PATIENCE

Json = dict[str, Any]
OLDER, NEWER = "2025-11-25", "2026-07-28"
Reply = Callable[["Exchange"], Awaitable[Json]]
_SESSION = "mcp-session-id"


class Refusal(Exception):
    """An error of the protocol, as it is sent."""

    def __init__(self, error: Json) -> None:
        self.error = error


@dataclass(frozen=True)
class Sent:
    """A message of the client's."""

    session: str
    method: str
    params: Json


class Exchange:
    """A request that is being answered."""

    def __init__(self, puppet: Puppet, sent: Sent, send: Send) -> None:
        self.puppet, self.sent, self._send = puppet, sent, send
        self._has_begun = False

    @property
    def params(self) -> Json:
        return self.sent.params

    @property
    def arguments(self) -> Json:
        return self.params["arguments"]

    async def say(self, message: Json) -> None:
        if not self._has_begun:
            self._has_begun = True
            headers = [(b"content-type", b"text/event-stream")]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        event = f"event: message\r\ndata: {json.dumps({'jsonrpc': '2.0', **message})}\r\n\r\n".encode()
        await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def notify(self, method: str, params: Json) -> None:
        await self.say({"method": method, "params": params})

    async def ask(self, method: str, params: Json) -> Json:
        """Ask the client in the middle of its request; return its answer, a result or an error."""
        number, answer = self.puppet.expect_answer()
        await self.say({"id": number, "method": method, "params": params})
        return await answer

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


class Puppet:
    def __init__(self, versions: Collection[str] = (OLDER,), **capabilities: Any) -> None:
        """`capabilities`: what it says it has, beside tools."""
        self.versions = versions
        self.capabilities: Json = {"tools": {"listChanged": True}, **capabilities}
        self.tools: dict[str, Reply] = {}
        """By name, what its tools do."""
        self.replies: dict[str, Reply] = {}
        """By method."""
        self.lists: dict[str, list[Json]] = {}
        """By the word for it, what it lists beside tools."""
        self.sent: list[Sent] = []
        self.sessions: list[str] = []
        """Those that were opened: of the newer generation, one for each hello."""
        self.forgotten: set[str] = set()
        self.is_silent = False
        """Whether it does not even say hello."""
        self.left: list[str] = []
        self.gone: list[Sent] = []
        """Requests whose client hung up."""
        self._news = asyncio.Event()
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Json]] = {}
        self._streams: dict[asyncio.Queue[Json], str] = {}

    # What the test sees and does

    def of(self, method: str) -> list[Sent]:
        return [sent for sent in self.sent if sent.method == method]

    async def until(self, is_so: Callable[[], Any]) -> None:
        """Wait until something is true of what it was sent."""
        async with asyncio.timeout(PATIENCE):
            while not is_so():
                self._news.clear()
                await self._news.wait()

    async def heard_by(self, number: int = 1) -> None:
        """Wait until so many clients listen."""
        await self.until(lambda: len(self._streams) >= number)

    def tell(self, method: str, params: Mapping[str, Any] | None = None, session: str | None = None) -> None:
        """Tell all who listen, or one of them."""
        for stream, whose in self._streams.items():
            if session in (None, whose):
                stream.put_nowait({"method": method, "params": dict(params or {})})

    def expect_answer(self) -> tuple[int, asyncio.Future[Json]]:
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        return number, self._answers[number]

    # HTTP

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        session = request.headers.get(_SESSION, "")
        match request.method:
            case "GET":
                await self._stand(Exchange(self, Sent(session, "", {}), send), receive)
            case "DELETE":
                self._note(self.left, session)
                await Response(status_code=200)(scope, receive, send)
            case _:
                message: Json = await request.json()
                if "method" in message and "id" in message:
                    await self._request(message, session, scope, receive, send)
                    return
                self._take(message, session)
                await Response(status_code=202)(scope, receive, send)

    def _take(self, message: Json, session: str) -> None:
        if "method" in message:
            self._note(self.sent, Sent(session, message["method"], message.get("params") or {}))
        elif (answer := self._answers.pop(message["id"], None)) and not answer.done():
            answer.set_result(message)

    async def _request(self, message: Json, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        sent = Sent(session, message["method"], message.get("params") or {})
        self._note(self.sent, sent)
        if self.is_silent:
            await _gone(receive)
            return
        if session in self.forgotten:
            error = {"code": -32600, "message": "Session not found"}
            await JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 404)(scope, receive, send)
            return
        if sent.method in ("initialize", "server/discover"):
            await self._hello(sent, message["id"])(scope, receive, send)
            return
        exchange = Exchange(self, sent, send)
        replying, leaving = (
            asyncio.create_task(self._reply(exchange, message["id"])),
            asyncio.create_task(_gone(receive)),
        )
        try:
            await asyncio.wait((replying, leaving), return_when=asyncio.FIRST_COMPLETED)
            if replying.done():
                await exchange.say({"id": message["id"], **replying.result()})
                await exchange.end()
            else:
                self._note(self.gone, sent)
        finally:
            replying.cancel()
            leaving.cancel()
            await asyncio.gather(replying, leaving, return_exceptions=True)

    async def _reply(self, exchange: Exchange, number: int | str) -> Json:
        try:
            result = await self._result(exchange, number)
        except Refusal as refusal:
            return {"error": refusal.error}
        return {"result": result}

    async def _result(self, exchange: Exchange, number: int | str) -> Json:
        method, params = exchange.sent.method, exchange.params
        if method in self.replies:
            return await self.replies[method](exchange)
        match method:
            case "tools/call" if params["name"] in self.tools:
                return {"resultType": "complete", **await self.tools[params["name"]](exchange)}
            case "tools/list":
                return _listed("tools", [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools])
            case "resources/list" | "prompts/list":
                word = method.partition("/")[0]
                return _listed(word, self.lists.get(word, []))
            case "resources/templates/list":
                return _listed("resourceTemplates", self.lists.get("resourceTemplates", []))
            case "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" | "ping":
                return {}
            case "subscriptions/listen":
                return await self._listened(exchange, number)
            case _:
                raise Refusal({"code": -32601, "message": f"Method not found: {method}"})

    def _hello(self, sent: Sent, number: int | str) -> Response:
        version = OLDER if sent.method == "initialize" else NEWER
        answer: Json = {"jsonrpc": "2.0", "id": number}
        if version not in self.versions:
            return JSONResponse({**answer, "error": {"code": -32601, "message": "Method not found"}})
        session = f"session-{next(self._numbers)}"
        self._note(self.sessions, session)
        info = {"name": "puppet", "version": "1"}
        if version == OLDER:
            result: Json = {"protocolVersion": version, "capabilities": self.capabilities, "serverInfo": info}
            return JSONResponse({**answer, "result": result}, headers={_SESSION: session})
        meta = {"io.modelcontextprotocol/serverInfo": info}
        said = {"supportedVersions": [NEWER], "capabilities": self.capabilities, "ttlMs": 0, "cacheScope": "private"}
        return JSONResponse({**answer, "result": {"resultType": "complete", **said, "_meta": meta}})

    # Streams

    async def _stand(self, exchange: Exchange, receive: Receive) -> None:
        await exchange.notify("notifications/puppet", {})  # so that there is a head
        telling, leaving = asyncio.create_task(self._tell(exchange, {})), asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait((telling, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            telling.cancel()
            leaving.cancel()
            await asyncio.gather(telling, leaving, return_exceptions=True)

    async def _listened(self, exchange: Exchange, number: int | str) -> Json:
        meta = {"_meta": {SUBSCRIPTION_ID_META_KEY: number}}
        wanted = exchange.params["notifications"]
        await exchange.notify("notifications/subscriptions/acknowledged", {"notifications": wanted, **meta})
        return await self._tell(exchange, meta)

    async def _tell(self, exchange: Exchange, meta: Json) -> Json:
        stream: asyncio.Queue[Json] = asyncio.Queue()
        self._streams[stream] = exchange.sent.session
        self._news.set()
        try:
            while True:
                message = await stream.get()
                await exchange.notify(message["method"], {**message["params"], **meta})
        finally:
            del self._streams[stream]

    def _note(self, where: list[Any], what: Any) -> None:
        where.append(what)
        self._news.set()


def _listed(word: str, items: list[Json]) -> Json:
    return {word: items, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def text(words: str, **more: Any) -> Json:
    return {"content": [{"type": "text", "text": words}], **more}
