"""The shorter way of polls: the same answers as the SDK's, to the byte where it matters, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from coatcheck.server import TaskContext, TaskServer
from tests.requirements.marks import requirement
from tests.server.asgi import Answer, exchange, running
from tests.server.wire import ABLE, EXTENSION, PATIENCE, VERSION, OverHTTP, headers, leaving_nothing, message

pytestmark = pytest.mark.anyio

META = "io.modelcontextprotocol/"


class Name(BaseModel):
    name: str


def _furnished() -> TaskServer:
    server = TaskServer("test", version="1", store="memory://")

    @server.tool(task=True)
    async def working(task: TaskContext) -> None:
        await task.progress(1, 2, "caf\u00e9 \u2028 </script>")
        await asyncio.Event().wait()

    @server.tool(task=True)
    async def asking(ctx: Context) -> str:
        return (await ctx.elicit("Who?", Name)).action

    @server.tool(task=True)
    async def completed() -> dict[str, Any]:
        return {"text": "\U0001f9e5", "big": 2**53 + 1, "float": 1.0, "null": None}

    @server.tool(task=True)
    async def failed() -> str:
        raise MCPError(-32050, "not today", {"retry": [None]})

    return server


class Both:
    """The same server's application, as the SDK makes it and with the shorter way; and how often that was taken."""

    def __init__(self, slow: OverHTTP, fast: OverHTTP, reached_sdk: list[str]) -> None:
        self.slow, self.fast, self._reached_sdk = slow, fast, reached_sdk

    async def post(self, body: Any, given: Any = None, *, path: str = "either") -> Answer:
        """Post to both, check that they say the same, and return it. `path`: fast or slow, if it should be one."""
        expected = await self.slow.post(body, given)
        before = len(self._reached_sdk)
        answer = await self.fast.post(body, given)
        if path != "either":
            assert (len(self._reached_sdk) == before) == (path == "fast")
        assert (answer.status, _headers(answer)) == (expected.status, _headers(expected))
        assert answer.body == expected.body or json.loads(answer.body) == json.loads(expected.body)
        return answer


def _headers(answer: Answer) -> dict[str, str]:
    """Return all headers but the length, which depends on blanks, and a session's id, which is random."""
    left_out = ("content-length", "mcp-session-id")
    return {name: value for name, value in answer.headers.items() if name not in left_out}


def _counting(app: Any, calls: list[str]) -> Any:
    async def counting(scope: Any, receive: Any, send: Any) -> None:
        calls.append(scope["path"])
        await app(scope, receive, send)

    return counting


@asynccontextmanager
async def _both(**options: Any) -> AsyncGenerator[Both]:
    server, reached = _furnished(), list[str]()
    slow = MCPServer[Any].streamable_http_app(server, **options)
    fast = server.streamable_http_app(**options)
    manager = server.session_manager
    manager.asgi_app = _counting(manager.asgi_app, reached)
    async with running(slow), running(fast), leaving_nothing(server.tasks):
        yield Both(OverHTTP(slow, server.tasks), OverHTTP(fast, server.tasks), reached)


@pytest.fixture
async def both() -> AsyncGenerator[Both]:
    async with _both() as two:
        yield two


async def _task(both: Both, tool: str) -> str:
    """Return the id of a task that has come as far as it will."""
    task_id = await both.slow.hand_in(tool)
    if tool in ("completed", "failed"):
        await both.slow.finished(task_id)
    elif tool == "asking":
        await both.slow.asked(task_id)
    else:
        engine = both.slow.tasks.running.engine
        task = await engine.get(task_id)
        while task.progress is None:
            task = await engine.wait(task, PATIENCE)
    return task_id


# The same answers


@requirement("S-027", "S-028", "S-029", "S-030", "S-031", "S-032")
@pytest.mark.parametrize("tool", ["working", "asking", "completed", "failed"])
@pytest.mark.parametrize("message_id", [1, 0, -7, 2**40, "one", "", "caf\u00e9"])
async def test_a_poll_is_answered_alike_and_by_the_shorter_way(both: Both, tool: str, message_id: Any) -> None:
    task_id = await _task(both, tool)
    answer = await both.post(message("tasks/get", {"taskId": task_id}, ABLE, message_id), path="fast")
    assert answer.status == 200
    assert answer.message()["id"] == message_id
    assert answer.message()["result"]["taskId"] == task_id


@requirement("S-031")
async def test_a_cancelled_task_is_polled_alike(both: Both) -> None:
    task_id = await _task(both, "working")
    await both.slow.cancel(task_id)
    answer = await both.post(message("tasks/get", {"taskId": task_id}), path="fast")
    assert answer.message()["result"]["status"] == "cancelled"


@pytest.mark.parametrize("json_response", [True, False])
async def test_polls_are_answered_alike_in_either_mode(json_response: bool) -> None:
    async with _both(json_response=json_response) as both:
        task_id = await _task(both, "completed")
        await both.post(message("tasks/get", {"taskId": task_id}), path="fast")


@pytest.mark.parametrize("method", ["tasks/update", "tasks/cancel", "tools/list", "server/discover", "ping", "no/such"])
async def test_other_methods_are_left_to_the_sdk(both: Both, method: str) -> None:
    body = message(method, {"taskId": "no such task", "inputResponses": {}})
    await both.post(body, path="slow")


@pytest.mark.parametrize("http_method", ["GET", "DELETE", "PUT", "HEAD", "OPTIONS"])
async def test_other_verbs_are_left_to_the_sdk(both: Both, http_method: str) -> None:
    body = message("tasks/get", {"taskId": "a"})
    answers: list[Answer] = []
    for caller in (both.slow, both.fast):

        async def app(scope: Any, receive: Any, send: Any, inner: Any = caller.app) -> None:
            await inner({**scope, "method": http_method}, receive, send)

        async with exchange(app, json.dumps(body).encode(), headers(body), PATIENCE) as sent:
            answers.append(await sent.answer())
    assert answers[0] == answers[1]


# Unusual requests: whatever the SDK says is said

Change = Callable[[dict[str, Any]], None]


def _set(*path: str, value: Any) -> Change:
    def change(body: dict[str, Any]) -> None:
        for part in path[:-1]:
            body = body[part]
        body[path[-1]] = value

    return change


def _drop(*path: str) -> Change:
    def change(body: dict[str, Any]) -> None:
        for part in path[:-1]:
            body = body[part]
        del body[path[-1]]

    return change


CAPABILITIES = ("params", "_meta", f"{META}clientCapabilities")
ODD_BODIES: dict[str, Change] = {
    "id null": _set("id", value=None),
    "id float": _set("id", value=1.0),
    "id fraction": _set("id", value=1.5),
    "id true": _set("id", value=True),
    "id list": _set("id", value=[1]),
    "id huge": _set("id", value=2**70),
    "no id": _drop("id"),
    "jsonrpc 1.0": _set("jsonrpc", value="1.0"),
    "jsonrpc number": _set("jsonrpc", value=2.0),
    "no jsonrpc": _drop("jsonrpc"),
    "another method": _set("method", value="tasks/cancel"),
    "method null": _set("method", value=None),
    "no params": _drop("params"),
    "params list": _set("params", value=[1]),
    "extra field": _set("extra", value={"a": 1}),
    "result field": _set("result", value={}),
    "extra param": _set("params", "more", value=[1]),
    "snake case too": _set("params", "task_id", value="another"),
    "task id number": _set("params", "taskId", value=7),
    "task id null": _set("params", "taskId", value=None),
    "no task id": _drop("params", "taskId"),
    "no meta": _drop("params", "_meta"),
    "meta null": _set("params", "_meta", value=None),
    "meta list": _set("params", "_meta", value=[]),
    "extra meta": _set("params", "_meta", "io.example/trace", value={"a": [1]}),
    "progress token": _set("params", "_meta", "progressToken", value=7),
    "progress token odd": _set("params", "_meta", "progressToken", value={"a": 1}),
    "log level odd": _set("params", "_meta", f"{META}logLevel", value="loud"),
    "traceparent odd": _set("params", "_meta", "traceparent", value=7),
    "client info": _set("params", "_meta", f"{META}clientInfo", value={"name": "x", "version": "1"}),
    "client info odd": _set("params", "_meta", f"{META}clientInfo", value="x"),
    "another version": _set("params", "_meta", f"{META}protocolVersion", value="2025-11-25"),
    "unknown version": _set("params", "_meta", f"{META}protocolVersion", value="2099-01-01"),
    "version number": _set("params", "_meta", f"{META}protocolVersion", value=2026),
    "no version": _drop("params", "_meta", f"{META}protocolVersion"),
    "no capabilities": _drop(*CAPABILITIES),
    "capabilities null": _set(*CAPABILITIES, value=None),
    "capabilities empty": _set(*CAPABILITIES, value={}),
    "capabilities list": _set(*CAPABILITIES, value=[EXTENSION]),
    "capabilities text": _set(*CAPABILITIES, value="tasks"),
    "extensions null": _set(*CAPABILITIES, value={"extensions": None}),
    "extensions list": _set(*CAPABILITIES, value={"extensions": [EXTENSION]}),
    "extension null": _set(*CAPABILITIES, value={"extensions": {EXTENSION: None}}),
    "extension true": _set(*CAPABILITIES, value={"extensions": {EXTENSION: True}}),
    "extension with settings": _set(*CAPABILITIES, value={"extensions": {EXTENSION: {"a": 1}}}),
    "another extension misshapen": _set(*CAPABILITIES, value={"extensions": {EXTENSION: {}, "x": 7}}),
    "roots misshapen": _set(*CAPABILITIES, value={"extensions": {EXTENSION: {}}, "roots": "yes"}),
    "sampling misshapen": _set(*CAPABILITIES, value={"extensions": {EXTENSION: {}}, "sampling": []}),
    "legacy tasks": _set(*CAPABILITIES, value={"tasks": {}}),
    "unknown task": _set("params", "taskId", value="no such task"),
    "odd task id": _set("params", "taskId", value="caf\u00e9 \u2028"),
    "oversized": _set("params", "_meta", "io.example/long", value="x" * 100_000),
}


@requirement("S-061", "S-063", "ER-7")
@pytest.mark.parametrize("name", list(ODD_BODIES))
async def test_an_unusual_body_is_answered_as_the_sdk_answers_it(both: Both, name: str) -> None:
    body = message("tasks/get", {"taskId": await _task(both, "completed")})
    given = headers(body)
    ODD_BODIES[name](body)
    await both.post(body, given)


ODD_BYTES: dict[str, Callable[[str], bytes]] = {
    "empty": lambda _: b"",
    "no json": lambda _: b"{",
    "batch": lambda text: f"[{text}]".encode(),
    "twice": lambda text: f"{text}{text}".encode(),
    "blanks": lambda text: f" \n{text}\n ".encode(),
    "utf-16": lambda text: text.encode("utf-16"),
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "not utf-8": lambda text: text.replace("2.0", "\xff").encode("latin-1"),
    "nan": lambda text: text.replace('"id": 1', '"id": 1, "x": NaN').encode(),
    "deep": lambda text: text.replace('"id": 1', f'"id": 1, "x": {"[" * 3000 + "]" * 3000}').encode(),
    "very deep": lambda text: text.replace('"id": 1', f'"id": 1, "x": {"[" * 30000 + "]" * 30000}').encode(),
    "long number": lambda text: text.replace('"id": 1', f'"id": 1, "x": {"9" * 5000}').encode(),
    "lone surrogate": lambda text: text.replace('"id": 1', '"id": 1, "x": "\\ud800"').encode(),
    "id of two kinds": lambda text: text.replace('"id": 1', '"id": "a", "id": 1').encode(),
    "method of two kinds": lambda text: text.replace('"method"', '"method": "x", "method"', 1).encode(),
    "second method": lambda text: (text[:-1] + ', "method": "tasks/cancel"}').encode(),
    "second id": lambda text: (text[:-1] + ', "id": 1.5}').encode(),
    "id with a fraction of zero": lambda text: text.replace('"id": 1', '"id": 1.0').encode(),
    "id with an exponent": lambda text: text.replace('"id": 1', '"id": 1e0').encode(),
    "minus zero": lambda text: text.replace('"id": 1', '"id": -0').encode(),
    "control character": lambda text: text.replace('"id": 1', '"id": "\x01"').encode(),
    "escaped id": lambda text: text.replace('"id": 1', '"id": "\\u0000\\ud83e\\udde5"').encode(),
}


@pytest.mark.parametrize("name", list(ODD_BYTES))
async def test_unusual_bytes_are_answered_as_the_sdk_answers_them(both: Both, name: str) -> None:
    body = message("tasks/get", {"taskId": await _task(both, "completed")})
    await both.post(ODD_BYTES[name](json.dumps(body)), headers(body))


@pytest.mark.parametrize("fragment", ["extensions", EXTENSION])
async def test_capabilities_given_twice_are_read_as_the_sdk_reads_them(both: Both, fragment: str) -> None:
    body = message("tasks/get", {"taskId": await _task(both, "completed")}, {"extensions": {EXTENSION: {}}})
    for again in ("{}", "null", '{"x": {}}'):
        text = json.dumps(body).replace(f'"{fragment}": {{', f'"{fragment}": {again}, "{fragment}": {{')
        await both.post(text.encode(), headers(body))


ODD_HEADERS: dict[str, list[tuple[str, str | None]]] = {
    "no accept": [("accept", None)],
    "accept json only": [("accept", "application/json")],
    "accept stream only": [("accept", "text/event-stream")],
    "accept anything": [("accept", "*/*")],
    "accept kinds": [("accept", "application/*, text/*")],
    "accept with weights": [("accept", "application/json;q=0.9, text/event-stream;q=0.1")],
    "accept capitals": [("accept", "Application/JSON, Text/Event-Stream")],
    "accept look-alikes": [("accept", "application/jsonp, text/event-streams")],
    "accept one look-alike": [("accept", "application/json-seq, text/event-stream")],
    "accept within a parameter": [("accept", "text/html;a=application/json;b=text/event-stream")],
    "no content type": [("content-type", None)],
    "content type text": [("content-type", "text/plain")],
    "content type with charset": [("content-type", "application/json; charset=utf-8")],
    "content type look-alike": [("content-type", "application/jsonp")],
    "content type capitals": [("content-type", "APPLICATION/JSON")],
    "no host": [("host", None)],
    "bad host": [("host", "evil.example")],
    "host without port": [("host", "127.0.0.1")],
    "host localhost": [("host", "localhost:1")],
    "bad origin": [("origin", "https://evil.example")],
    "origin null": [("origin", "null")],
    "good origin": [("origin", "http://localhost:3000")],
    "no version": [("mcp-protocol-version", None)],
    "old version": [("mcp-protocol-version", "2025-11-25")],
    "unknown version": [("mcp-protocol-version", "2099-01-01")],
    "version with a blank": [("mcp-protocol-version", f"{VERSION} ")],
    "no method": [("mcp-method", None)],
    "wrong method": [("mcp-method", "tasks/cancel")],
    "method capitals": [("mcp-method", "Tasks/Get")],
    "no name": [("mcp-name", None)],
    "wrong name": [("mcp-name", "another")],
    "empty name": [("mcp-name", "")],
    "session id": [("mcp-session-id", "abc")],
    "last event id": [("last-event-id", "7")],
    "a token nobody asked for": [("authorization", "Bearer x")],
    "param header": [("mcp-param-a", "7")],
    "wrong length": [("content-length", "5")],
    "long length": [("content-length", "99999999")],
    "length no number": [("content-length", "many")],
    "compressed": [("content-encoding", "gzip")],
}


@requirement("S-059", "S-060", "C-022", "ER-7")
@pytest.mark.parametrize("name", list(ODD_HEADERS))
async def test_unusual_headers_are_answered_as_the_sdk_answers_them(both: Both, name: str) -> None:
    body = message("tasks/get", {"taskId": await _task(both, "completed")})
    changed = dict(ODD_HEADERS[name])
    given = [header for header in headers(body) if header[0] not in changed]
    given += [(header, value) for header, value in changed.items() if value is not None]
    await both.post(body, given)


@pytest.mark.parametrize(
    "header", ["mcp-method", "mcp-name", "mcp-protocol-version", "content-type", "accept", "host", "origin", "x-other"]
)
@pytest.mark.parametrize("second", ["the same", "another"])
@pytest.mark.parametrize("order", [1, -1])
async def test_a_header_given_twice_is_answered_as_the_sdk_answers_it(
    both: Both, header: str, second: str, order: int
) -> None:
    body = message("tasks/get", {"taskId": await _task(both, "completed")})
    given = headers(body, *([] if header in dict(headers(body)) else [(header, "http://localhost:1")]))
    again = dict(given)[header] if second == "the same" else "something else"
    await both.post(body, [*given, (header, again)][::order])
