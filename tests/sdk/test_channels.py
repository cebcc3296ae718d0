"""What a server can say to a client of its own accord, and where it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

import anyio
import mcp_types as types
import pytest
from mcp.server.connection import allowed_log_levels
from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import CONNECTION_CLOSED, LOG_LEVEL_META_KEY, REQUEST_TIMEOUT, RequestParams
from pydantic import ConfigDict

from tests.sdk.asgi import PATIENCE
from tests.sdk.peer import EARLIER, NEWER, OLDER, Client, Json
from tests.sdk.probe import METHOD, RequestContext, serving
from tests.sdk.transports import Connect, Way, as_json, on_streams, over_http

pytestmark = pytest.mark.anyio

ODD: Json = {"task": {"taskId": "t", "ttl": None}, "x": 1}
"""An answer that the SDK would not take for that of an elicitation."""


class Raw:
    """A request of which only the form is the SDK's: its method is not what is sent."""

    method = "com.example/any"

    def __init__(self, method: str, params: Mapping[str, Any]) -> None:
        self._dumped = {"method": method, "params": dict(params)}

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return self._dumped


class Anything(types.Result):
    model_config = ConfigDict(extra="allow")


class RawNotification(types.Notification[dict[str, Any], str]):
    method: str
    params: dict[str, Any]


async def send(
    ctx: RequestContext, method: str, params: Mapping[str, Any], *, own_stream: bool, timeout: float | None = None
) -> Json:
    answer = await ctx.session.send_request(
        cast("Any", Raw(method, params)),
        Anything,
        request_read_timeout_seconds=timeout,
        metadata=ServerMessageMetadata(related_request_id=ctx.request_id) if own_stream else None,
    )
    return answer.model_dump(by_alias=True, mode="json", exclude_unset=True, exclude={"meta"})


async def tell(ctx: RequestContext, method: str, params: Json, *, own_stream: bool) -> None:
    sent = RawNotification(method=method, params=params)
    await ctx.session.send_notification(cast("Any", sent), related_request_id=ctx.request_id if own_stream else None)


# Whether a client can be asked

ASKABLE = {"streams": True, "sse": True, "json": False, "direct": False}


async def _can_be_asked(ctx: RequestContext, params: RequestParams) -> HandlerResult:
    return {"can": ctx.session.can_send_request}


async def test_a_request_that_is_answered_with_json_has_no_way_to_ask(older: Way) -> None:
    async with older(serving(_can_be_asked)) as peer:
        assert (await peer.result(METHOD))["can"] is ASKABLE[older.name]


async def test_a_request_without_a_session_has_no_way_to_ask() -> None:
    async with over_http(serving(_can_be_asked), Client(), stateless_http=True) as peer:
        assert (await peer.result(METHOD))["can"] is False


@pytest.mark.parametrize("own_stream", [True, False])
async def test_a_newer_client_cannot_be_asked(newer: Way, own_stream: bool) -> None:
    async def ask(ctx: RequestContext, params: RequestParams) -> HandlerResult:
        with pytest.raises(NoBackChannelError):
            await send(ctx, "elicitation/create", {}, own_stream=own_stream)
        return {"can": ctx.session.can_send_request}

    async with newer(serving(ask)) as peer:
        assert (await peer.result(METHOD))["can"] is False


@pytest.mark.parametrize("options", [{"json_response": True}, {"stateless_http": True}], ids=["json", "stateless"])
async def test_where_there_is_no_way_to_ask_that_is_said_at_once(options: dict[str, Any]) -> None:
    async def ask(ctx: RequestContext, params: RequestParams) -> HandlerResult:
        with pytest.raises(NoBackChannelError) as refused:
            await send(ctx, "elicitation/create", {}, own_stream=True)
        assert isinstance(refused.value, MCPError)
        return {}

    async with over_http(serving(ask), Client(), **options) as peer:
        await peer.result(METHOD)


# Asking


QUESTION: Json = {"task": {"ttl": 5}, "x": None, "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t"}}}


async def _ask_for_odd(ctx: RequestContext, params: RequestParams, *, own_stream: bool = True) -> HandlerResult:
    return {"answer": await send(ctx, "elicitation/create", QUESTION, own_stream=own_stream)}


@pytest.mark.parametrize("connect", [on_streams, over_http])
async def test_a_question_and_its_answer_pass_as_they_are(connect: Connect) -> None:
    async with connect(serving(_ask_for_odd), Client(answers={"elicitation/create": ODD})) as peer:
        assert (await peer.result(METHOD))["answer"] == ODD
        asked = await peer.hears("elicitation/create")
    assert asked.params == QUESTION


async def test_nothing_is_added_to_a_question_but_perhaps_an_empty_meta() -> None:
    async def ask(ctx: RequestContext, params: RequestParams) -> HandlerResult:
        return await send(ctx, "tasks/get", {"taskId": "t"}, own_stream=True)

    async with on_streams(serving(ask), Client(answers={"tasks/get": {}})) as peer:
        await peer.result(METHOD)
        asked = await peer.hears("tasks/get")
    assert {"_meta": {}, **asked.params} == {"_meta": {}, "taskId": "t"}


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
async def test_a_client_can_be_asked_what_the_sdk_has_no_words_for(method: str) -> None:
    async def ask(ctx: RequestContext, params: RequestParams) -> HandlerResult:
        return {"answer": await send(ctx, method, {"taskId": "t"}, own_stream=True)}

    async with on_streams(serving(ask), Client(answers={method: ODD})) as peer:
        assert (await peer.result(METHOD))["answer"] == ODD


async def test_a_question_of_a_request_comes_on_its_own_stream() -> None:
    async with over_http(serving(_ask_for_odd), Client(answers={"elicitation/create": ODD})) as peer:
        await peer.stand_by()
        await peer.result(METHOD)
        assert (await peer.hears("elicitation/create")).stream == "own"


@pytest.mark.parametrize("connect", [over_http, as_json])
async def test_a_question_of_no_request_comes_on_the_standing_stream(connect: Connect) -> None:
    handler = partial(_ask_for_odd, own_stream=False)
    async with connect(serving(handler), Client(answers={"elicitation/create": ODD})) as peer:
        await peer.stand_by()
        assert (await peer.result(METHOD))["answer"] == ODD
        assert (await peer.hears("elicitation/create")).stream == "standing"


@pytest.mark.parametrize("connect", [on_streams, over_http])
async def test_an_error_a_client_answers_with_is_raised(connect: Connect) -> None:
    async def ask(ctx: RequestContext, params: RequestParams) -> HandlerResult:
        with pytest.raises(MCPError) as refused:
            await send(ctx, "elicitation/create", {}, own_stream=True)
        return {"code": refused.value.code, "message": refused.value.message}

    async with connect(serving(ask), Client()) as peer:
        answer = await peer.result(METHOD)
    assert (answer["code"], answer["message"]) == (-32601, "Method not found")


async def test_a_question_can_be_limited_in_time_and_is_then_withdrawn() -> None:
    async def ask(ctx: RequestContext, params: RequestParams) -> HandlerResult:
        with pytest.raises(MCPError) as refused:
            await send(ctx, "elicitation/create", {}, own_stream=True, timeout=0.01)
        return {"code": refused.value.code}

    async with on_streams(serving(ask), Client(answers=None)) as peer:
        assert (await peer.result(METHOD))["code"] == REQUEST_TIMEOUT
        asked = await peer.hears("elicitation/create")
        assert (await peer.hears("notifications/cancelled")).params["requestId"] == asked.message["id"]


@pytest.mark.parametrize("connect", [on_streams, over_http])
async def test_a_question_that_is_dropped_is_withdrawn(connect: Connect) -> None:
    is_heard = asyncio.Event()

    async def ask(ctx: RequestContext, params: RequestParams) -> HandlerResult:
        asking = asyncio.create_task(send(ctx, "elicitation/create", {}, own_stream=True))
        async with asyncio.timeout(PATIENCE):
            await is_heard.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        return {"is_cancelled": asking.cancelled()}

    async with connect(serving(ask), Client(answers=None)) as peer:
        answer = peer.begin(METHOD)
        asked = await peer.hears("elicitation/create")
        is_heard.set()
        assert (await answer)["result"]["is_cancelled"]
        assert (await peer.hears("notifications/cancelled")).params["requestId"] == asked.message["id"]


@pytest.mark.parametrize("connect", [on_streams, over_http])
async def test_a_question_whose_client_leaves_fails_as_a_closed_connection(connect: Connect) -> None:
    failures: asyncio.Queue[MCPError] = asyncio.Queue()

    async def ask_apart(ctx: RequestContext) -> None:
        try:
            await send(ctx, "elicitation/create", {}, own_stream=True)
        except MCPError as error:
            failures.put_nowait(error)

    async def ask(ctx: RequestContext, params: RequestParams) -> HandlerResult:
        asking.append(asyncio.create_task(ask_apart(ctx)))
        await asyncio.Event().wait()
        return {}

    asking: list[asyncio.Task[None]] = []
    async with connect(serving(ask), Client(answers=None)) as peer:
        peer.begin(METHOD)
        await peer.hears("elicitation/create")
        await peer.leave()
        async with asyncio.timeout(PATIENCE):
            assert (await failures.get()).code == CONNECTION_CLOSED


# Telling


@pytest.mark.parametrize("connect", [on_streams, over_http])
async def test_a_notification_the_sdk_has_no_words_for_passes_as_it_is(connect: Connect) -> None:
    params = {"taskId": "t", "ttl": None, "inner": {"x": None}}

    async def run(ctx: RequestContext, _: RequestParams) -> HandlerResult:
        await tell(ctx, "notifications/tasks/status", params, own_stream=True)
        return {}

    async with connect(serving(run), Client()) as peer:
        await peer.result(METHOD)
        assert (await peer.hears("notifications/tasks/status")).params == params


async def test_the_same_to_a_newer_client(newer: Way) -> None:
    params = {"taskId": "t", "ttlMs": None}

    async def run(ctx: RequestContext, _: RequestParams) -> HandlerResult:
        await tell(ctx, "notifications/tasks", params, own_stream=True)
        return {}

    async with newer(serving(run)) as peer:
        await peer.result(METHOD)
        if newer.name != "json":  # one answer has room for nothing else
            assert (await peer.hears("notifications/tasks")).params == params


@pytest.mark.parametrize(("own_stream", "stream"), [(True, "own"), (False, "standing")])
async def test_a_notification_comes_on_the_stream_it_is_sent_on(own_stream: bool, stream: str) -> None:
    async def run(ctx: RequestContext, _: RequestParams) -> HandlerResult:
        await tell(ctx, "notifications/tasks/status", {"taskId": "t"}, own_stream=own_stream)
        return {}

    async with over_http(serving(run), Client()) as peer:
        await peer.stand_by()
        await peer.result(METHOD)
        assert (await peer.hears("notifications/tasks/status")).stream == stream


async def test_a_notification_comes_before_the_answer_it_is_sent_before(older: Way) -> None:
    async def run(ctx: RequestContext, _: RequestParams) -> HandlerResult:
        own_stream = ctx.session.can_send_request
        await tell(ctx, "notifications/tasks/status", {"taskId": "t"}, own_stream=own_stream)
        return {}

    async with older(serving(run)) as peer:
        await peer.result(METHOD)
        told = [heard.message["method"] for heard in peer.heard]
    assert told == (["notifications/tasks/status"] if ASKABLE[older.name] else [])


async def test_a_notification_can_be_sent_long_after_the_request_was_answered(older: Way) -> None:
    kept: list[RequestContext] = []

    async def run(ctx: RequestContext, _: RequestParams) -> HandlerResult:
        kept.append(ctx)
        return {}

    async with older(serving(run)) as peer:
        await peer.stand_by()
        await peer.result(METHOD)
        await tell(kept[0], "notifications/tasks/status", {"taskId": "t"}, own_stream=False)
        assert (await peer.hears("notifications/tasks/status")).stream != "own"


async def test_telling_a_client_that_has_left_does_no_harm(older: Way) -> None:
    kept: list[RequestContext] = []

    async def run(ctx: RequestContext, _: RequestParams) -> HandlerResult:
        kept.append(ctx)
        return {}

    async with older(serving(run)) as peer:
        await peer.result(METHOD)
        await peer.leave()
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await tell(kept[0], "notifications/tasks/status", {"taskId": "t"}, own_stream=False)


# Progress and logs


async def _report(ctx: RequestContext, _: RequestParams) -> HandlerResult:
    await ctx.session.report_progress(0.5, 2.0, "half")
    return {}


@pytest.mark.parametrize("way_name", ["streams", "sse"])
@pytest.mark.parametrize("version", [OLDER, NEWER])
async def test_progress_comes_with_the_token_of_the_request(way_name: str, version: str) -> None:
    connect = on_streams if way_name == "streams" else over_http
    async with connect(serving(_report), Client(version)) as peer:
        await peer.result(METHOD, {"_meta": {"progressToken": "p"}})
        told = (await peer.hears("notifications/progress")).params
    assert told == {"progressToken": "p", "progress": 0.5, "total": 2.0, "message": "half"}


async def test_nobody_hears_of_progress_without_a_token(older: Way) -> None:
    async with older(serving(_report)) as peer:
        await peer.result(METHOD)
        assert peer.heard == []


@pytest.mark.parametrize("version", [EARLIER, OLDER])
def test_an_older_client_may_be_sent_every_log(version: str) -> None:
    assert {"debug", "emergency"} <= allowed_log_levels(version, None)


def test_a_newer_client_is_sent_the_logs_it_asks_for() -> None:
    assert allowed_log_levels(NEWER, None) == set()
    assert allowed_log_levels(NEWER, {LOG_LEVEL_META_KEY: "critical"}) == {"critical", "alert", "emergency"}
