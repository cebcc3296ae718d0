"""The stream of `subscriptions/listen`: whose session it speaks through, what it carries besides, and how it ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import mcp_types as types
import pytest
from mcp.server.context import CallNext, HandlerResult
from mcp.server.mcpserver import Context
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ToolsListChanged
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import METHOD_NOT_FOUND

from tests.sdk.asgi import PATIENCE
from tests.sdk.peer import NEWER, Client
from tests.sdk.probe import RequestContext, serving
from tests.sdk.transports import Way, on_streams, over_http

pytestmark = pytest.mark.anyio

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
WANTED: dict[str, Any] = {"notifications": {"toolsListChanged": True, "taskIds": ["a", "b"]}}


class Widened:
    """A session that adds to the acknowledgement what the SDK does not know."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self.sent: list[tuple[type, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def send_notification(
        self, notification: types.ServerNotification, related_request_id: types.RequestId | None = None
    ) -> None:
        self.sent.append((type(notification), related_request_id))
        if isinstance(notification, types.SubscriptionsAcknowledgedNotification):
            given = notification.model_dump(by_alias=True, mode="json", exclude_none=True)
            given["params"]["notifications"]["taskIds"] = ["a"]
            notification = types.SubscriptionsAcknowledgedNotification.model_validate(given)
        await self._session.send_notification(notification, related_request_id)


class Listening:
    """A middleware around the stream."""

    def __init__(self) -> None:
        self.session: Widened | None = None
        self.ctx: RequestContext | None = None
        self.is_over = asyncio.Event()

    async def __call__(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        if ctx.method != LISTEN:
            return await call_next(ctx)
        self.ctx, self.session = ctx, Widened(ctx.session)
        try:
            return await call_next(replace(ctx, session=cast("ServerSession", self.session)))
        finally:
            self.is_over.set()


async def test_an_acknowledgement_comes_first_and_says_what_the_session_adds(newer: Way) -> None:
    listening = Listening()
    async with newer(serving(middleware=[listening])) as peer:
        peer.begin(LISTEN, WANTED)
        await peer.hears(ACKNOWLEDGED)
        assert listening.ctx is not None
        assert listening.session is not None
        assert listening.session.sent == [
            (types.SubscriptionsAcknowledgedNotification, listening.ctx.request_id),
        ]
        (first,) = peer.heard
        assert first.params["notifications"] == {"toolsListChanged": True, "taskIds": ["a"]}
        assert first.params["_meta"] == {SUBSCRIPTION_ID_META_KEY: listening.ctx.request_id}


async def test_the_sdk_itself_does_not_answer_for_tasks(newer: Way) -> None:
    async with newer(serving()) as peer:
        peer.begin(LISTEN, WANTED)
        assert (await peer.hears(ACKNOWLEDGED)).params["notifications"] == {"toolsListChanged": True}


async def test_the_stream_carries_notifications_of_others(newer: Way) -> None:
    class RawNotification(types.Notification[dict[str, Any], str]):
        method: str
        params: dict[str, Any]

    listening = Listening()
    async with newer(serving(middleware=[listening])) as peer:
        peer.begin(LISTEN, WANTED)
        await peer.hears(ACKNOWLEDGED)
        assert listening.ctx is not None
        sent = RawNotification(method="notifications/tasks", params={"taskId": "a", "ttlMs": None})
        await listening.ctx.session.send_notification(cast("Any", sent), listening.ctx.request_id)
        assert (await peer.hears("notifications/tasks")).params == {"taskId": "a", "ttlMs": None}


async def test_what_is_published_on_the_bus_given_to_the_server_is_heard(newer: Way) -> None:
    bus = InMemorySubscriptionBus()
    async with newer(serving(subscriptions=bus)) as peer:
        peer.begin(LISTEN, WANTED)
        await peer.hears(ACKNOWLEDGED)
        await bus.publish(ToolsListChanged())
        await peer.hears("notifications/tools/list_changed")


async def test_a_tool_outside_of_a_request_publishes_on_the_bus_it_is_given() -> None:
    bus, heard = InMemorySubscriptionBus(), list[Any]()
    bus.subscribe(heard.append)
    await Context(subscriptions=bus).notify_tools_changed()
    assert heard == [ToolsListChanged()]


async def test_a_middleware_may_end_the_stream_with_last_words(newer: Way) -> None:
    is_ending = asyncio.Event()

    async def end(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        stream = asyncio.create_task(cast("Any", call_next(ctx)))
        async with asyncio.timeout(PATIENCE):
            await is_ending.wait()
        stream.cancel()
        await asyncio.gather(stream, return_exceptions=True)
        return types.SubscriptionsListenResult(_meta={SUBSCRIPTION_ID_META_KEY: ctx.request_id})

    async with newer(serving(middleware=[end])) as peer:
        answer = peer.begin(LISTEN, WANTED)
        acknowledged = await peer.hears(ACKNOWLEDGED)
        is_ending.set()
        async with asyncio.timeout(PATIENCE):
            assert (await answer)["result"]["_meta"] == acknowledged.params["_meta"]


async def test_a_client_that_hangs_up_ends_the_stream() -> None:
    listening = Listening()
    async with over_http(serving(middleware=[listening]), Client(NEWER)) as peer:
        peer.begin(LISTEN, WANTED)
        await peer.hears(ACKNOWLEDGED)
        await peer.close()
        async with asyncio.timeout(PATIENCE):
            await listening.is_over.wait()


async def test_a_client_that_cancels_ends_the_stream() -> None:
    listening = Listening()
    async with on_streams(serving(middleware=[listening]), Client(NEWER)) as peer:
        peer.begin(LISTEN, WANTED)
        await peer.hears(ACKNOWLEDGED)
        assert listening.ctx is not None
        await peer.notify("notifications/cancelled", {"requestId": listening.ctx.request_id})
        async with asyncio.timeout(PATIENCE):
            await listening.is_over.wait()


async def test_older_clients_have_nothing_to_listen_to(older: Way) -> None:
    async with older(serving()) as peer:
        assert (await peer.error(LISTEN, WANTED))["code"] == METHOD_NOT_FOUND
