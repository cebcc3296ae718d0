"""The hook itself, on every transport: what is raised through the SDK is answered as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mcp.server.context import CallNext, HandlerResult
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, RequestParams

from coatcheck.server.hook import Hook, RequestContext, Verbatim
from tests.sdk.peer import OLDER
from tests.sdk.probe import METHOD, serving
from tests.sdk.transports import Way

pytestmark = pytest.mark.anyio

ANSWER: dict[str, Any] = {"task": {"taskId": "t", "ttl": None}, "x": [1, None]}
CALL: dict[str, Any] = {"name": "echo", "arguments": {}}


async def _pass_on(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
    return await call_next(ctx)


async def _answer_at_once(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
    raise Verbatim(ANSWER)


def _in_a_step() -> MCPServer[Any]:
    return serving(middleware=[Hook({"tools/call": _answer_at_once})])


def _in_an_interceptor() -> MCPServer[Any]:
    async def intercept(params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        raise Verbatim(ANSWER)

    return serving(interceptor=intercept, middleware=[Hook({"tools/call": _pass_on})])


def _in_a_tool() -> MCPServer[Any]:
    server = serving(middleware=[Hook({"tools/call": _pass_on})])
    server.remove_tool("echo")

    @server.tool()
    async def echo() -> str:
        raise Verbatim(ANSWER)

    return server


@pytest.mark.parametrize("raising", [_in_a_step, _in_an_interceptor, _in_a_tool])
async def test_an_answer_that_is_raised_arrives_as_it_is(way: Way, raising: Callable[[], MCPServer[Any]]) -> None:
    async with way(raising()) as peer:
        assert await peer.result("tools/call", CALL) == ANSWER


async def test_a_method_without_a_step_is_left_alone(way: Way) -> None:
    async def answer(ctx: RequestContext, params: RequestParams) -> HandlerResult:
        raise Verbatim(ANSWER)

    async with way(serving(answer, middleware=[Hook({"tools/call": _answer_at_once})])) as peer:
        assert (await peer.result("tools/list"))["tools"][0]["name"] == "echo"
        assert (await peer.error(METHOD))["code"] == Verbatim({}).code


async def test_any_other_error_stays_an_error(way: Way) -> None:
    async def refuse(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        raise MCPError(-32000, "no")

    async with way(serving(middleware=[Hook({"tools/call": refuse})])) as peer:
        assert await peer.error("tools/call", CALL) == {"code": -32000, "message": "no"}


async def test_a_step_may_change_what_the_rest_answers(way: Way) -> None:
    async def more(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        assert isinstance(result, dict)
        return {**result, "com.example/more": True}

    hook = Hook({"initialize": more, "tools/list": more, "tools/call": more})
    async with way(serving(middleware=[hook])) as peer:
        assert (await peer.result("tools/list"))["com.example/more"]
        assert (await peer.call("echo"))["com.example/more"]
        assert way.version != OLDER or peer.greeted["com.example/more"]


async def test_a_notification_is_no_request_whatever_its_name(older: Way) -> None:
    stepped: list[str] = []

    async def note(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        stepped.append(ctx.method)
        return await call_next(ctx)

    async with older(serving(middleware=[Hook({"notifications/initialized": note, "tools/call": note})])) as peer:
        await peer.call("echo")
    assert stepped == ["tools/call"]
