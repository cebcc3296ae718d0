"""The shorter way of hand-ins: a call becomes the same task as through the SDK, or is answered by it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from pydantic import BaseModel, Field, ValidationInfo, field_validator

from coatcheck import decode
from coatcheck.server import TaskPolicy, TaskServer
from tests.requirements.marks import requirement
from tests.server.asgi import Answer, running
from tests.server.conftest import Watching
from tests.server.wire import EXTENSION, IDEMPOTENCY_KEY, TASKS, OverHTTP, headers, leaving_nothing, message

pytestmark = pytest.mark.anyio

META = "io.modelcontextprotocol/"


class Size(BaseModel):
    width: Annotated[int, Field(gt=0)]

    @field_validator("width")
    @classmethod
    def check(cls, width: int, info: ValidationInfo) -> int:
        if width == 13:
            raise RuntimeError("unlucky")
        return width


class Name(BaseModel):
    name: str


def who() -> Elicit[Name]:
    return Elicit("Who?", Name)


async def echo(
    number: int, size: Size | None = None, text: str = "x", items: list[int] | None = None, ratio: float = 0.5
) -> dict[str, Any]:
    return {"number": number, "size": size and size.width, "text": text, "items": items, "ratio": ratio}


async def tenant(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    return region


async def with_context(number: int, ctx: Context) -> str:
    return f"{number} {ctx.protocol_version} {dict(ctx.request_context.meta or {})}"


async def resolved(number: int, user: Annotated[Name, Resolve(who)]) -> str:
    return f"{number} {user.name}"


async def nothing() -> str:
    return "nothing"


def _furnished(**options: Any) -> TaskServer:
    server = TaskServer("test", version="1", store="memory://", **options)
    for tool in (echo, tenant, with_context, resolved, nothing):
        server.add_tool(tool, task=True)
    server.add_tool(echo, "required", task="required")
    server.add_tool(echo, "forbidden")
    server.add_tool(echo, "patient", task=TaskPolicy("optional", ttl=60, poll_interval=9))
    return server


class Both:
    """The same server's application, as the SDK makes it and with the shorter way."""

    def __init__(self, slow: OverHTTP, fast: OverHTTP) -> None:
        self.slow, self.fast = slow, fast

    async def post(self, body: Any, given: Any = None) -> dict[str, Any]:
        """Post to both and check that they say the same and that the same comes of it. Return the answer."""
        expected, answer = await self.slow.post(body, given), await self.fast.post(body, given)
        assert answer.status == expected.status
        assert _plain(answer) == _plain(expected)
        assert await self._outcome(answer) == await self._outcome(expected)
        return answer.message() if answer.body else {}

    async def _outcome(self, answer: Answer) -> Any:
        """Return what a task came to, and what was kept of its call; None if there is none."""
        said = answer.message() if answer.body.startswith(b"{") else {}
        if said.get("result", {}).get("resultType") != "task":
            return None
        done = await self.slow.finished(said["result"]["taskId"])
        task = await self.slow.tasks.running.engine.get(done["taskId"])
        assert task.expires_at
        kept = (task.call.tool, decode(task.call.arguments), decode(task.call.meta), task.owner)
        return done["status"], done.get("result"), done.get("error"), kept, task.poll_interval, task.resumable


def _plain(answer: Answer) -> Any:
    """Return what was answered without what is different each time."""
    if not answer.body.startswith(b"{"):
        return answer.body
    said = answer.message()
    if isinstance(said.get("result"), dict):
        said["result"] |= dict.fromkeys(("taskId", "createdAt", "lastUpdatedAt"), 0)
        said["result"].pop("requestState", None)
    return said


@asynccontextmanager
async def _both(server: TaskServer | None = None) -> AsyncGenerator[Both]:
    server = server or _furnished()
    slow, fast = MCPServer[Any].streamable_http_app(server), server.streamable_http_app()
    async with running(slow), running(fast), leaving_nothing(server.tasks):
        yield Both(OverHTTP(slow, server.tasks), OverHTTP(fast, server.tasks))


@pytest.fixture
async def both() -> AsyncGenerator[Both]:
    async with _both() as two:
        yield two


def _call(tool: str, arguments: Any, **more: Any) -> dict[str, Any]:
    return message("tools/call", {"name": tool, "arguments": arguments, **more})


ARGUMENTS: dict[str, Any] = {
    "plain": {"number": 1},
    "all": {"number": 1, "size": {"width": 2}, "text": "caf\u00e9 \U0001f9e5", "items": [1, 2], "ratio": 1},
    "number as text": {"number": "1"},
    "number as a whole float": {"number": 1.0},
    "number as a fraction": {"number": 1.5},
    "number as a boolean": {"number": True},
    "big number": {"number": 2**70},
    "null": {"number": None},
    "missing": {},
    "more than there is": {"number": 1, "other": [1]},
    "a model as text": {"number": 1, "size": '{"width": 2}'},
    "a list as text": {"number": 1, "items": "[1, 2]"},
    "text that looks like JSON": {"number": 1, "text": '{"a": 1}'},
    "text that is a number": {"number": 1, "text": 7},
    "a model that does not fit": {"number": 1, "size": {"width": 0}},
    "a validator that fails": {"number": 1, "size": {"width": 13}},
    "null for a default": {"number": 1, "text": None},
    "float": {"number": 1, "ratio": 0.1},
    "large float": {"number": 1, "ratio": 1e308},
    "list": [1],
    "text": "number",
    "no arguments": None,
    "empty key": {"number": 1, "": 1},
}


OTHERS = ("required", "forbidden", "patient", "with_context", "nothing")
CALLS = [
    *(("echo", name) for name in ARGUMENTS),
    *((tool, name) for tool in OTHERS for name in ("plain", "number as text", "missing", "more than there is")),
]


@requirement("S-012", "S-017", "S-018")
@pytest.mark.parametrize(("tool", "name"), CALLS)
async def test_a_call_comes_to_the_same(both: Both, tool: str, name: str) -> None:
    await both.post(_call(tool, ARGUMENTS[name]))


@pytest.mark.parametrize("arguments", [None, {}, {"other": 1}])
async def test_a_call_without_arguments_comes_to_the_same(both: Both, arguments: Any) -> None:
    body = message("tools/call", {"name": "nothing", **({} if arguments is None else {"arguments": arguments})})
    await both.post(body)


@requirement("S-020")
async def test_a_tool_that_asks_first_asks_first(both: Both) -> None:
    said = await both.post(_call("resolved", {"number": 1}))
    assert said["result"]["resultType"] == "input_required"


@requirement("S-059")
@pytest.mark.parametrize("region", [None, "eu", "us"])
async def test_a_parameter_that_is_to_be_repeated_in_a_header_is_checked(both: Both, region: str | None) -> None:
    body = _call("tenant", {"region": "eu"})
    given = headers(body, *([] if region is None else [("mcp-param-region", region)]))
    said = await both.post(body, given)
    assert ("result" in said) == (region == "eu")


ODD: dict[str, dict[str, Any]] = {
    "legacy task": {"task": {"ttl": 5}},
    "legacy task misshapen": {"task": 7},
    "answers": {"inputResponses": {"a": {"action": "decline"}}},
    "state": {"requestState": "abc"},
    "extra": {"other": 1},
    "name number": {"name": 7},
    "unknown name": {"name": "no_such_tool"},
    "no name": {"name": None},
}


@requirement("C-020")
@pytest.mark.parametrize("name", ODD)
async def test_an_unusual_call_comes_to_the_same(both: Both, name: str) -> None:
    body = _call("echo", {"number": 1})
    body["params"] |= ODD[name]
    await both.post(body, headers(body, ("mcp-name", str(body["params"]["name"]))))


META_CHANGES: dict[str, dict[str, Any]] = {
    "trace": {"io.example/trace": {"a": [1, None]}},
    "progress": {"progressToken": "p"},
    "progress misshapen": {"progressToken": {"a": 1}},
    "log level": {f"{META}logLevel": "debug"},
    "log level misshapen": {f"{META}logLevel": "loud"},
    "client": {f"{META}clientInfo": {"name": "x", "version": "1"}},
    "client misshapen": {f"{META}clientInfo": {"name": 7}},
    "no tasks": {f"{META}clientCapabilities": {}},
    "tasks only": {f"{META}clientCapabilities": TASKS},
    "tasks misshapen": {f"{META}clientCapabilities": {"extensions": {EXTENSION: 7}}},
    "roots misshapen": {f"{META}clientCapabilities": {**TASKS, "roots": 7}},
    "another version": {f"{META}protocolVersion": "2025-11-25"},
    "null trace": {"io.example/trace": None},
    "idempotency key misshapen": {IDEMPOTENCY_KEY: 7},
}


@requirement("S-002", "S-006")
@pytest.mark.parametrize("tool", ["echo", "with_context"])
@pytest.mark.parametrize("name", META_CHANGES)
async def test_an_unusual_envelope_comes_to_the_same(both: Both, name: str, tool: str) -> None:
    body = _call(tool, {"number": 1})
    body["params"]["_meta"] |= META_CHANGES[name]
    await both.post(body)


BYTES: dict[str, Callable[[str], str]] = {
    "argument given twice": lambda text: text.replace('"number": 1', '"number": "x", "number": 1'),
    "argument given twice, the second wrong": lambda text: text.replace('"number": 1', '"number": 1, "number": "x"'),
    "arguments given twice": lambda text: text.replace('"arguments": ', '"arguments": {}, "arguments": '),
    "name given twice": lambda text: text.replace('"name": "echo"', '"name": "forbidden", "name": "echo"'),
    "nan": lambda text: text.replace('"number": 1', '"number": 1, "ratio": NaN'),
    "infinity": lambda text: text.replace('"number": 1', '"number": 1, "ratio": Infinity'),
    "long number": lambda text: text.replace('"number": 1', f'"number": {"9" * 5000}'),
    "exponent": lambda text: text.replace('"number": 1', '"number": 1e2'),
    "too large a float": lambda text: text.replace('"number": 1', '"number": 1, "ratio": 1e999'),
    "exact float": lambda text: text.replace(
        '"number": 1', '"number": 1, "ratio": 0.1000000000000000055511151231257827'
    ),
    "lone surrogate": lambda text: text.replace('"number": 1', '"number": 1, "text": "\\ud800"'),
    "escaped": lambda text: text.replace('"number": 1', '"\\u006eumber": 1'),
    "null character": lambda text: text.replace('"number": 1', '"number": 1, "text": "\\u0000"'),
    "blanks": lambda text: text.replace('"number": 1', '"number" :\n\t1 '),
}


@pytest.mark.parametrize("name", BYTES)
async def test_unusual_bytes_come_to_the_same(both: Both, name: str) -> None:
    body = _call("echo", {"number": 1})
    await both.post(BYTES[name](json.dumps(body)).encode(), headers(body))


# What an author has put around calls


async def test_another_extension_sees_every_call() -> None:
    watching = Watching()
    async with _both(_furnished(extensions=[watching])) as both:
        await both.fast.call("echo", number=1)
        await both.slow.call("echo", number=1)
    assert watching.seen == ["task", "task"]


async def test_an_authors_middleware_sees_every_call() -> None:
    seen: list[str] = []

    async def note(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        seen.append(ctx.method)
        return await call_next(ctx)

    async with _both(_furnished(middleware=[note])) as both:
        await both.fast.call("echo", number=1)
    assert [method for method in seen if method != "tools/list"] == ["tools/call"]  # older SDKs look up the schema


Change = Callable[[TaskServer], Awaitable[None] | None]


def _removed(server: TaskServer) -> None:
    server.remove_tool("echo")


def _forbidden_now(server: TaskServer) -> None:
    server.remove_tool("echo")
    server.add_tool(echo, task=False)


def _another_now(server: TaskServer) -> None:
    server.remove_tool("echo")
    server.add_tool(nothing, "echo", task="required")


@pytest.mark.parametrize("change", [_removed, _forbidden_now, _another_now])
async def test_a_tool_that_has_changed_is_called_as_it_is_now(both: Both, change: Change) -> None:
    await both.post(_call("echo", {"number": 1}))
    server = both.slow.tasks.running.server
    assert isinstance(server, TaskServer)
    change(server)
    await both.post(_call("echo", {"number": 1}))


async def test_a_limit_is_told_in_the_same_words() -> None:
    async with _both(_furnished(max_unfinished=1, concurrency=0)) as both:
        await both.slow.call("echo", number=1)
        said = await both.post(_call("echo", {"number": 1}))
    assert said["error"]["code"] == -31429
