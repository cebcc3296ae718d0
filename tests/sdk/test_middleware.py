"""What `coatcheck.server.hook` needs of the SDK's middleware, which is provisional."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any, cast

import mcp_types as types
import pytest
from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import Extension
from mcp.server.mcpserver import Context, MCPServer, Resolve
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, RequestParams

from tests.sdk.peer import EARLIER, OLDER, Client
from tests.sdk.probe import METHOD, RequestContext, serving
from tests.sdk.transports import Way, on_streams

pytestmark = pytest.mark.anyio

CREATED: dict[str, Any] = {"task": {"taskId": "t", "status": "working", "ttl": None}, "_meta": {"com.example/a": 1}}
"""An answer to `tools/call` that is no tool result."""
ECHO: dict[str, Any] = {"name": "echo", "arguments": {}}


class Seen:
    """A middleware that remembers what passes."""

    def __init__(self) -> None:
        self.contexts: list[RequestContext] = []
        self.results: list[HandlerResult] = []
        self.errors: list[Exception] = []

    async def __call__(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        self.contexts.append(ctx)
        try:
            result = await call_next(ctx)
        except Exception as error:
            self.errors.append(error)
            raise
        self.results.append(result)
        return result

    @property
    def methods(self) -> list[str]:
        return [ctx.method for ctx in self.contexts]


class Crossing(MCPError):
    def __init__(self) -> None:
        super().__init__(-32000, "crossing", {"a": 1})


CROSSING = Crossing()


# What it sees


async def test_it_sees_requests_of_the_core_and_of_extensions(way: Way) -> None:
    seen = Seen()

    async def nothing(ctx: RequestContext, params: RequestParams) -> HandlerResult:
        return None

    async with way(serving(nothing, middleware=[seen])) as peer:
        await peer.result("tools/list")
        await peer.call("echo")
        await peer.result(METHOD)
    assert [method for method in seen.methods if "initialize" not in method] == ["tools/list", "tools/call", METHOD]


async def test_it_sees_the_handshake(older: Way) -> None:
    seen = Seen()
    async with older(serving(middleware=[seen])):
        assert seen.methods[0] == "initialize"


async def test_it_sees_who_listens(newer: Way) -> None:
    seen = Seen()
    async with newer(serving(middleware=[seen])) as peer:
        peer.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await peer.hears("notifications/subscriptions/acknowledged")
    assert seen.methods == ["subscriptions/listen"]


async def test_it_sees_notifications_which_have_no_id(older: Way) -> None:
    seen = Seen()
    async with older(serving(middleware=[seen])) as peer:
        await peer.call("echo")
    ids = {ctx.method: ctx.request_id for ctx in seen.contexts}
    assert ids["notifications/initialized"] is None
    assert ids["initialize"] is not None
    assert ids["tools/call"] is not None


async def test_it_sees_the_params_as_they_were_sent(way: Way) -> None:
    seen = Seen()
    async with way(serving(middleware=[seen])) as peer:
        await peer.result("tools/call", {**ECHO, "x": None, "_meta": {"com.example/a": 1}})
    raw = seen.contexts[-1].params
    assert raw is not None
    assert raw["x"] is None
    assert raw["_meta"]["com.example/a"] == 1


async def test_it_sees_the_version_that_is_spoken(way: Way) -> None:
    seen = Seen()
    async with way(serving(middleware=[seen])) as peer:
        await peer.result("tools/list")
    assert seen.contexts[-1].protocol_version == way.version


async def test_one_that_is_added_by_the_lifespan_sees_the_first_request(way: Way) -> None:
    seen = Seen()

    @asynccontextmanager
    async def lifespan(server: MCPServer[Any]) -> AsyncGenerator[None]:
        assert seen not in server.middleware
        server.middleware.append(seen)
        yield

    async with way(serving(lifespan=lifespan)) as peer:
        await peer.result("tools/list")
    assert seen.methods[0] == ("initialize" if way.version == OLDER else "tools/list")


def test_what_the_sdk_itself_puts_there_is_the_same_for_every_server() -> None:
    plain = [type(one) for one in MCPServer("any").middleware]
    assert [type(one) for one in serving().middleware] == plain


# What it may change


async def test_the_rest_of_the_chain_answers_with_a_dict(way: Way) -> None:
    seen = Seen()
    async with way(serving(middleware=[seen])) as peer:
        await peer.result("tools/list")
        await peer.call("echo")
    answers = [result for ctx, result in zip(seen.contexts, seen.results, strict=True) if ctx.request_id is not None]
    assert len(answers) >= 2
    assert all(isinstance(answer, dict) for answer in answers)


@pytest.mark.parametrize("version", [OLDER, EARLIER])
async def test_the_handshake_says_what_it_adds(older: Way, version: str) -> None:
    async def declare(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method == "initialize":
            assert isinstance(result, dict)
            assert result["protocolVersion"] == version
            result["capabilities"] = {**result["capabilities"], "tasks": {"list": {}, "cancel": {}}}
        return result

    async with older.connect(serving(middleware=[declare]), Client(version)) as peer:
        assert peer.greeted["capabilities"]["tasks"] == {"list": {}, "cancel": {}}
        assert peer.greeted["capabilities"]["tools"] is not None


async def test_a_list_of_tools_says_what_it_adds(way: Way) -> None:
    async def describe(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method != "tools/list":
            return result
        assert isinstance(result, dict)
        tools = cast("list[dict[str, Any]]", result["tools"])
        return {**result, "tools": [{**tool, "execution": {"taskSupport": "optional"}} for tool in tools]}

    async with way(serving(middleware=[describe])) as peer:
        (tool,) = (await peer.result("tools/list"))["tools"]
    assert tool["execution"] == {"taskSupport": "optional"}
    assert tool["inputSchema"]["properties"]["text"]["type"] == "string"


async def test_its_answer_to_a_call_is_sent_as_it_is(way: Way) -> None:
    async def answer(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        return CREATED if ctx.method == "tools/call" else await call_next(ctx)

    async with way(serving(middleware=[answer])) as peer:
        assert await peer.result("tools/call", ECHO) == CREATED


async def test_the_same_answer_is_refused_to_a_handler_before_2026_07_28(older: Way) -> None:
    async def intercept(params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        return CREATED

    async with older(serving(interceptor=intercept)) as peer:
        assert (await peer.error("tools/call", ECHO))["code"] == types.INTERNAL_ERROR


async def test_it_may_answer_with_a_model(way: Way) -> None:
    async def answer(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        if ctx.method != "tools/call":
            return await call_next(ctx)
        return types.SubscriptionsListenResult(_meta={"com.example/a": 1})

    async with way(serving(middleware=[answer])) as peer:
        assert (await peer.result("tools/call", ECHO))["_meta"] == {"com.example/a": 1}


async def test_what_it_raises_is_the_error_the_client_gets(way: Way) -> None:
    async def refuse(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/call":
            raise CROSSING
        return await call_next(ctx)

    async with way(serving(middleware=[refuse])) as peer:
        assert await peer.error("tools/call", ECHO) == {"code": -32000, "message": "crossing", "data": {"a": 1}}


# What crosses the SDK on the way to it


def _raising_in_interceptor(seen: Seen) -> MCPServer[Any]:
    async def intercept(params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        raise CROSSING

    return serving(interceptor=intercept, middleware=[seen])


async def _raise() -> str:
    raise CROSSING


def _raising_in_tool(seen: Seen) -> MCPServer[Any]:
    server = serving(middleware=[seen])
    server.remove_tool("echo")
    server.add_tool(_raise, "echo")
    return server


def _raising_in_resolver(seen: Seen) -> MCPServer[Any]:
    server = serving(middleware=[seen])
    server.remove_tool("echo")

    @server.tool()
    async def echo(text: Annotated[str, Resolve(_raise)]) -> str:
        return text

    return server


@pytest.mark.parametrize("raising", [_raising_in_interceptor, _raising_in_tool, _raising_in_resolver])
async def test_an_error_of_the_protocol_reaches_it_as_the_same_object(
    way: Way, raising: Callable[[Seen], MCPServer[Any]]
) -> None:
    seen = Seen()
    async with way(raising(seen)) as peer:
        await peer.error("tools/call", ECHO)
    assert [error is CROSSING for error in seen.errors] == [True]


async def test_an_error_of_a_tool_reaches_an_interceptor_as_the_same_object(way: Way) -> None:
    caught: list[Exception] = []

    async def intercept(params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        try:
            return await call_next(ctx)
        except Crossing as error:
            caught.append(error)
            return types.CallToolResult(content=[])

    server = serving(interceptor=intercept)
    server.add_tool(_raise, "failing")
    async with way(server) as peer:
        await peer.call("failing")
    assert [error is CROSSING for error in caught] == [True]


# What flows down


class Renamed:
    """A session that is told from the SDK's own."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


async def _with_another_session(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
    return await call_next(replace(ctx, session=cast("ServerSession", Renamed(ctx.session))))


async def test_a_session_it_puts_in_is_the_one_of_a_handler(way: Way) -> None:
    async def look(ctx: RequestContext, params: RequestParams) -> HandlerResult:
        return {"session": type(ctx.session).__name__}

    async with way(serving(look, middleware=[_with_another_session])) as peer:
        assert (await peer.result(METHOD))["session"] == "Renamed"


async def test_a_session_an_interceptor_puts_in_is_the_one_of_a_tool(way: Way) -> None:
    async def intercept(params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        return await _with_another_session(ctx, call_next)

    server = serving(interceptor=intercept)

    @server.tool()
    async def look(ctx: Context) -> str:
        return type(ctx.session).__name__

    async with way(server) as peer:
        assert (await peer.call("look"))["content"][0]["text"] == "Renamed"


class Inner(Extension):
    identifier = "com.example/inner"

    def __init__(self, order: list[str], name: str) -> None:
        self._order, self._name = order, name
        self.identifier = f"com.example/{name}"

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext
    ) -> HandlerResult:
        self._order.append(self._name)
        return await call_next(ctx)


async def test_the_last_extension_is_the_one_next_to_the_tool() -> None:
    order: list[str] = []
    server: MCPServer[Any] = MCPServer("probe", extensions=[Inner(order, "first"), Inner(order, "last")])

    @server.tool()
    async def echo() -> None:
        order.append("tool")

    async with on_streams(server, Client()) as peer:
        await peer.call("echo")
    assert order == ["first", "last", "tool"]
