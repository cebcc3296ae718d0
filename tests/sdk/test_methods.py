"""Methods of an extension: who may call them, what they are given, and what is done to what they return."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import MethodBinding
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    SERVER_INFO_META_KEY,
    CallToolRequestParams,
    CallToolResult,
    RequestParams,
    TextContent,
)

from tests.sdk.peer import EARLIER, NEWER, OLDER, Client
from tests.sdk.probe import EXTENSION, METHOD, RequestContext, serving
from tests.sdk.transports import Connect, Way, as_json, on_streams, over_http

pytestmark = pytest.mark.anyio

TASKS = ("tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update")
TASK: dict[str, Any] = {"taskId": "t", "status": "working", "ttl": None, "com.example/x": {"y": None, "z": [1, None]}}


class TaskParams(RequestParams):
    task_id: str
    cursor: str | None = None


async def _task(ctx: RequestContext, params: TaskParams) -> HandlerResult:
    return {**TASK, "taskId": params.task_id}


def _binding(method: str, *versions: str) -> MethodBinding:
    return MethodBinding(method, TaskParams, _task, frozenset(versions) if versions else None)


# Who may call


@pytest.mark.parametrize("method", TASKS)
async def test_a_method_of_tasks_can_be_bound_and_answers_as_it_likes_to_older_clients(older: Way, method: str) -> None:
    async with older(serving(bindings=[_binding(method)])) as peer:
        assert await peer.result(method, {"taskId": "t"}) == TASK


@pytest.mark.parametrize("connect", [on_streams, over_http, as_json])
@pytest.mark.parametrize("version", [EARLIER, OLDER, NEWER])
async def test_a_method_is_there_for_the_versions_it_is_bound_for(connect: Connect, version: str) -> None:
    others = {EARLIER, OLDER, NEWER} - {version}
    server = serving(bindings=[_binding("probe/theirs", version), _binding("probe/others", *others)])
    async with connect(server, Client(version)) as peer:
        assert (await peer.result("probe/theirs", {"taskId": "t"}))["taskId"] == "t"
        assert (await peer.error("probe/others", {"taskId": "t"}))["code"] == METHOD_NOT_FOUND


async def test_a_method_nobody_bound_is_not_found(way: Way) -> None:
    async with way(serving()) as peer:
        assert (await peer.error("tasks/get", {"taskId": "t"}))["code"] == METHOD_NOT_FOUND


# What they are given


async def test_params_are_read_by_the_names_of_the_wire(way: Way) -> None:
    async with way(serving(bindings=[_binding("tasks/get")])) as peer:
        assert (await peer.result("tasks/get", {"taskId": "of mine", "com.example/x": 1}))["taskId"] == "of mine"
        assert (await peer.error("tasks/get", {"task_id": "t"}))["code"] == INVALID_PARAMS


@pytest.mark.parametrize("params", [{}, {"taskId": 1}, {"taskId": None}, {"taskId": "t", "cursor": 1}])
async def test_params_that_do_not_fit_are_refused_before_the_handler(way: Way, params: dict[str, Any]) -> None:
    async with way(serving(bindings=[_binding("tasks/list")])) as peer:
        assert (await peer.error("tasks/list", params))["code"] == INVALID_PARAMS


# What becomes of their results


async def test_a_newer_client_gets_a_result_with_its_frame_and_nothing_else_changed(newer: Way) -> None:
    async with newer(serving(bindings=[_binding("tasks/get")])) as peer:
        result = await peer.result("tasks/get", {"taskId": "t"})
    assert result.pop("resultType") == "complete"
    assert result.pop("_meta") == {SERVER_INFO_META_KEY: {"name": "probe", "version": "1"}}
    assert result == TASK


async def test_the_meta_of_a_result_is_kept(way: Way) -> None:
    async def answer(ctx: RequestContext, params: RequestParams) -> HandlerResult:
        return {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t"}}}

    async with way(serving(answer)) as peer:
        meta = (await peer.result(METHOD))["_meta"]
    assert meta["io.modelcontextprotocol/related-task"] == {"taskId": "t"}
    assert (SERVER_INFO_META_KEY in meta) is (way.version == NEWER)


async def test_an_error_arrives_with_its_code_message_and_data(way: Way) -> None:
    data = {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t"}}, "x": None}

    async def refuse(ctx: RequestContext, params: RequestParams) -> HandlerResult:
        raise MCPError(-31429, "too often", data)

    async with way(serving(refuse)) as peer:
        assert await peer.error(METHOD) == {"code": -31429, "message": "too often", "data": data}


# What an interceptor may answer


def _answering(answer: HandlerResult) -> Any:
    async def intercept(params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        return answer

    return serving(interceptor=intercept)


async def test_a_newer_client_gets_a_task_as_it_is(newer: Way) -> None:
    task = {**TASK, "resultType": "task"}
    async with newer(_answering(task), capabilities={"extensions": {EXTENSION: {}}}) as peer:
        result = await peer.result("tools/call", {"name": "echo"})
    assert SERVER_INFO_META_KEY in result.pop("_meta")
    assert result == task


async def test_a_result_in_a_dict_passes_for_one(way: Way) -> None:
    content = [{"type": "text", "text": "hello"}]
    frame = {"resultType": "complete"} if way.version == NEWER else {}
    answer = {**frame, "content": content, "isError": True, "structuredContent": {"x": None}}
    async with way(_answering(answer)) as peer:
        result = await peer.result("tools/call", {"name": "echo"})
    assert result["content"] == content
    assert result["isError"] is True
    assert result["structuredContent"] == {"x": None}


async def test_what_the_rest_answers_is_still_a_model_there(way: Way) -> None:
    seen: list[HandlerResult] = []

    async def intercept(params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        seen.append(await call_next(ctx))
        return seen[0]

    async with way(serving(interceptor=intercept)) as peer:
        await peer.call("echo", text={"no": "text"})
    (refused,) = seen
    assert isinstance(refused, CallToolResult)
    assert refused.is_error
    assert isinstance(refused.content[0], TextContent)


async def test_it_knows_the_arguments_and_the_id_of_the_call(way: Way) -> None:
    seen: list[tuple[str, Any, Any]] = []

    async def intercept(params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        seen.append((params.name, params.arguments, ctx.method))
        assert ctx.request_id is not None
        return await call_next(ctx)

    async with way(serving(interceptor=intercept)) as peer:
        await peer.call("echo", text="hello")
        await peer.result("tools/call", {"name": "echo"})
    assert seen == [("echo", {"text": "hello"}, "tools/call"), ("echo", None, "tools/call")]


# The advertisement


async def test_an_extension_is_advertised_to_newer_clients(newer: Way) -> None:
    async with newer(serving()) as peer:
        assert (await peer.result("server/discover"))["capabilities"]["extensions"] == {EXTENSION: {}}
