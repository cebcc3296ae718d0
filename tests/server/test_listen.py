"""Push: subscriptions/listen with taskIds, and what comes on such a stream."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client import ClientExtension, NotificationBinding
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from pydantic import BaseModel, ConfigDict

from coatcheck import StoreError
from coatcheck.server import TaskContext, TaskServer
from tests.requirements.marks import requirement
from tests.server.asgi import Exchange, running
from tests.server.wire import ABLE, EXTENSION, PATIENCE, PROGRESS, VERSION, OverHTTP, over_http

pytestmark = pytest.mark.anyio

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class Name(BaseModel):
    name: str


class Steps:
    """A tool that goes on when it is told to."""

    def __init__(self, server: TaskServer) -> None:
        self.go_on = asyncio.Semaphore(0)
        server.add_tool(self.run, "steps", task=True)

    async def run(self, task: TaskContext, notes: list[str]) -> str:
        for note in notes:
            await self.go_on.acquire()
            await task.note(note)
            await task.flush()
        await self.go_on.acquire()
        return "done"


@pytest.fixture
def steps(server: TaskServer) -> Steps:
    return Steps(server)


async def _acknowledged(stream: Exchange) -> dict[str, Any]:
    status, given = await stream.start()
    assert (status, given["content-type"]) == (200, "text/event-stream")
    message = await stream.message()
    assert message["method"] == ACKNOWLEDGED
    return message["params"]["notifications"]


@requirement("S-053", "S-054", "S-073", "C-024", "R-18")
async def test_a_stream_begins_with_the_tasks_it_will_tell_of(server: TaskServer, steps: Steps) -> None:
    async with over_http(server) as caller:
        one, other = [await caller.hand_in("steps", notes=[]) for _ in range(2)]
        async with caller.listening(one, "no such task", other, one) as stream:
            assert await _acknowledged(stream) == {"taskIds": [one, other]}


@requirement("S-054")
async def test_a_stream_may_have_no_tasks_left(server: TaskServer) -> None:
    async with over_http(server) as caller, caller.listening("no such task") as stream:
        assert await _acknowledged(stream) == {"taskIds": []}


@requirement("S-052", "S-056", "ER-5", "R-26")
async def test_every_change_is_told_as_a_poll_would_tell_it(server: TaskServer, steps: Steps) -> None:
    async with over_http(server) as caller:
        task_id = await caller.hand_in("steps", notes=["one", "two"])
        async with caller.listening(task_id) as stream:
            await _acknowledged(stream)
            told, polled = [await _told(stream)], [await _polled(caller, task_id)]
            for _ in range(2):
                steps.go_on.release()
                told.append(await _told(stream))
                polled.append(await _polled(caller, task_id))
            steps.go_on.release()
            told.append(await _told(stream))
            polled.append(await _polled(caller, task_id))
    assert told == polled
    assert [task.get("statusMessage", task["status"]) for task in told] == ["working", "one", "two", "two"]
    assert told[-1]["result"]["content"][0]["text"] == "done"


@requirement("R-19", "S-056")
async def test_progress_is_told_in_numbers_beside_the_subscription(server: TaskServer) -> None:
    go_on = asyncio.Event()

    @server.tool(task=True)
    async def copy(ctx: Context, task: TaskContext) -> None:
        await go_on.wait()
        await ctx.report_progress(1, 2)
        await task.flush()
        await asyncio.Event().wait()

    async with over_http(server) as caller:
        task_id = await caller.hand_in("copy")
        async with caller.listening(task_id) as stream:
            await _acknowledged(stream)
            new = (await stream.message())["params"]["_meta"]
            go_on.set()
            changed = (await stream.message())["params"]["_meta"]
    assert new.keys() == {SUBSCRIPTION}
    assert changed == {**new, PROGRESS: {"progress": 1, "total": 2}}


async def _told(stream: Exchange) -> dict[str, Any]:
    message = await stream.message()
    assert (message["jsonrpc"], message["method"]) == ("2.0", "notifications/tasks")
    return {name: value for name, value in message["params"].items() if name != "_meta"}


async def _polled(caller: OverHTTP, task_id: str) -> dict[str, Any]:
    polled = await caller.get(task_id)
    return {name: value for name, value in polled.items() if name not in ("_meta", "resultType")}


@requirement("S-056", "S-052")
async def test_questions_and_errors_are_told_whole(server: TaskServer) -> None:
    @server.tool(task=True)
    async def ask(ctx: Context) -> str:
        await ctx.elicit("Who?", Name)
        raise MCPError(-32050, "not today", {"retry": None})

    async with over_http(server) as caller:
        task_id = await caller.hand_in("ask")
        async with caller.listening(task_id) as stream:
            await _acknowledged(stream)
            while (asked := await _told(stream))["status"] != "input_required":
                pass
            assert asked == await _polled(caller, task_id)
            (key,) = asked["inputRequests"]
            await caller.update(task_id, {key: {"action": "decline"}})
            while (ended := await _told(stream))["status"] != "failed":
                pass
            assert ended == await _polled(caller, task_id)
    assert ended["error"] == {"code": -32050, "message": "not today", "data": {"retry": None}}


@requirement("S-073")
@pytest.mark.parametrize("message_id", [7, "sub-1"])
async def test_every_message_carries_the_id_of_its_subscription(
    server: TaskServer, steps: Steps, message_id: int | str
) -> None:
    async with over_http(server) as caller:
        task_id = await caller.hand_in("steps", notes=[])
        body = caller.message("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
        async with caller.open({**body, "id": message_id}) as stream:
            await stream.start()
            steps.go_on.release()
            messages = [await stream.message()]
            while messages[-1]["params"].get("status") != "completed":
                messages.append(await stream.message())
    assert [message["params"]["_meta"][SUBSCRIPTION] for message in messages] == [message_id] * len(messages)


@requirement("S-053")
async def test_a_finished_task_is_told_once_and_nothing_more(server: TaskServer, steps: Steps) -> None:
    async with over_http(server) as caller:
        done = await caller.hand_in("steps", notes=[])
        steps.go_on.release()
        await caller.finished(done)
        other = await caller.hand_in("steps", notes=[])
        async with caller.listening(done, other) as stream:
            await _acknowledged(stream)
            told = [await _told(stream), await _told(stream)]
            await caller.cancel(other)
            told.append(await _told(stream))
    assert [task["taskId"] for task in told].count(done) == 1
    assert told[-1]["status"] == "cancelled"


@requirement("R-26")
async def test_what_happened_between_creation_and_listening_is_not_missed(server: TaskServer, steps: Steps) -> None:
    async with over_http(server) as caller:
        task_id = await caller.hand_in("steps", notes=["one"])
        steps.go_on.release()
        steps.go_on.release()
        await caller.finished(task_id)
        async with caller.listening(task_id) as stream:
            await _acknowledged(stream)
            assert (await _told(stream))["status"] == "completed"


@requirement("S-057", "R-19")
async def test_neither_progress_nor_logs_come_on_a_stream_for_tasks(server: TaskServer) -> None:
    go_on = asyncio.Event()

    @server.tool(task=True)
    async def talk(ctx: Context) -> None:
        await go_on.wait()
        await ctx.report_progress(1, 2, "half")
        with pytest.warns(MCPDeprecationWarning):
            await ctx.info("hello")  # pyright: ignore[reportDeprecated]

    loud = {"progressToken": 7, "io.modelcontextprotocol/logLevel": "debug"}
    async with over_http(server) as caller:
        params = {"name": "talk", "arguments": {}, "_meta": loud}
        task_id = (await caller.request("tools/call", params))["taskId"]
        wanted = {"notifications": {"taskIds": [task_id]}, "_meta": loud}
        async with caller.open(caller.message("subscriptions/listen", wanted)) as stream:
            await _acknowledged(stream)
            go_on.set()
            methods: set[str] = set()
            status = "working"
            while status == "working":
                message = await stream.message()
                methods.add(message["method"])
                status = message["params"].get("status", status)
    assert (methods, status) == ({"notifications/tasks"}, "completed")


@requirement("S-055", "ER-1")
@pytest.mark.parametrize("capabilities", [{}, {"tasks": {}}, {"extensions": {}}], ids=str)
async def test_a_client_that_does_not_declare_the_extension_cannot_listen_to_tasks(
    server: TaskServer, capabilities: dict[str, Any]
) -> None:
    async with over_http(server, capabilities=capabilities) as caller:
        answer = await caller.post(caller.message("subscriptions/listen", {"notifications": {"taskIds": []}}))
    assert answer.status == 400
    assert answer.message()["error"]["code"] == -32021
    assert answer.message()["error"]["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


@pytest.mark.parametrize("task_ids", ["a", 7, {"a": 1}, [7], [None], ["a", ["b"]]], ids=str)
async def test_ids_that_are_no_list_of_texts_are_refused(server: TaskServer, task_ids: Any) -> None:
    async with over_http(server) as caller:
        answer = await caller.post(caller.message("subscriptions/listen", {"notifications": {"taskIds": task_ids}}))
    assert (answer.status, answer.message()["error"]["code"]) == (400, -32602)


async def test_a_stream_has_a_limited_number_of_tasks(server: TaskServer) -> None:
    async with over_http(server) as caller:
        wanted = {"notifications": {"taskIds": [str(number) for number in range(1001)]}}
        answer = await caller.post(caller.message("subscriptions/listen", wanted))
    assert answer.message()["error"]["code"] == -32602
    assert "1000" in answer.message()["error"]["message"]


# Beside what the core has


@requirement("S-053", "S-073")
async def test_the_core_kinds_come_on_the_same_stream(server: TaskServer, steps: Steps) -> None:
    @server.tool()
    async def change(ctx: Context) -> None:
        await ctx.notify_tools_changed()
        await ctx.notify_resource_updated("note://one")

    async with over_http(server) as caller:
        task_id = await caller.hand_in("steps", notes=[])
        kinds = {"toolsListChanged": True, "resourceSubscriptions": ["note://one"]}
        async with caller.listening(task_id, **kinds) as stream:
            assert await _acknowledged(stream) == {"taskIds": [task_id], **kinds}
            await _told(stream)
            await caller.call("change")
            changes = [await stream.message(), await stream.message()]
            steps.go_on.release()
            assert (await _told(stream))["status"] == "completed"
    assert {change["method"] for change in changes} == {
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    }
    assert all(SUBSCRIPTION in change["params"]["_meta"] for change in changes)


async def test_a_stream_without_tasks_is_the_sdks_own(server: TaskServer) -> None:
    async with over_http(server, capabilities={}) as caller:
        wanted = {"notifications": {"toolsListChanged": True}}
        async with caller.open(caller.message("subscriptions/listen", wanted)) as stream:
            assert await _acknowledged(stream) == {"toolsListChanged": True}


@requirement("S-058")
async def test_tasks_go_on_when_their_listener_hangs_up(server: TaskServer, steps: Steps) -> None:
    async with over_http(server) as caller:
        task_id = await caller.hand_in("steps", notes=[])
        async with caller.listening(task_id) as stream:
            await _acknowledged(stream)
        steps.go_on.release()
        assert (await caller.finished(task_id))["status"] == "completed"


async def test_many_may_listen_to_one_task(server: TaskServer, steps: Steps) -> None:
    async with over_http(server) as caller:
        task_id = await caller.hand_in("steps", notes=[])
        async with caller.listening(task_id) as one, caller.listening(task_id) as other:
            for stream in (one, other):
                await _acknowledged(stream)
                await _told(stream)
            steps.go_on.release()
            assert await _told(one) == await _told(other)


async def test_a_listener_is_not_left_in_silence_when_the_store_was_out_of_order(
    server: TaskServer, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with over_http(server) as caller:
        task_id = await caller.hand_in("steps", notes=[])
        engine, failed = server.tasks.running.engine, asyncio.Event()
        wait = engine.wait

        async def broken_once(*args: Any, **kwargs: Any) -> Any:
            if not failed.is_set():
                failed.set()
                raise StoreError("the disk is busy")
            return await wait(*args, **kwargs)

        monkeypatch.setattr(engine, "wait", broken_once)
        async with caller.listening(task_id) as stream:
            await _acknowledged(stream)
            await _told(stream)
            await failed.wait()
            steps.go_on.release()
            async with asyncio.timeout(30):
                message = await stream.message()
    assert message.get("params", {}).get("status") == "completed" or "result" in message


# The end of a stream


@requirement("S-073")
@pytest.mark.parametrize("with_tasks", [True, False])
async def test_a_stream_is_ended_as_agreed_when_the_server_stops(
    server: TaskServer, steps: Steps, with_tasks: bool
) -> None:
    app = server.streamable_http_app()
    async with running(app):
        caller = OverHTTP(app, server.tasks)
        wanted: dict[str, Any] = {"toolsListChanged": True}
        if with_tasks:
            wanted["taskIds"] = [await caller.hand_in("steps", notes=[])]
        body = caller.message("subscriptions/listen", {"notifications": wanted})
        async with caller.open(body) as stream:
            await _acknowledged(stream)
            if with_tasks:
                await _told(stream)
            server.tasks.end_streams()
            last = await stream.message()
            assert await stream.ended()
        steps.go_on.release()
    assert (last["id"], last["result"]["resultType"]) == (body["id"], "complete")
    assert last["result"]["_meta"][SUBSCRIPTION] == body["id"]


async def test_the_end_of_a_stream_names_the_server_as_every_result_does(server: TaskServer) -> None:
    async with over_http(server) as caller, caller.listening() as stream:
        await _acknowledged(stream)
        server.tasks.end_streams()
        result = (await stream.message())["result"]
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "test", "version": "1"}


@requirement("S-073")
async def test_a_stream_ends_with_the_lifespan_of_its_server(server: TaskServer) -> None:
    app = server.streamable_http_app()
    async with AsyncExitStack() as stack:
        async with running(app):
            caller = OverHTTP(app, server.tasks)
            stream = await stack.enter_async_context(caller.listening())
            await _acknowledged(stream)
        assert (await stream.message())["result"]["resultType"] == "complete"


class Anything(types.NotificationParams):
    model_config = ConfigDict(extra="allow")


class Listening(ClientExtension):
    """A client that notes what it is told."""

    identifier = EXTENSION

    def __init__(self) -> None:
        self.told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def _note(self, params: Anything) -> None:
        self.told.put_nowait(params.model_dump(by_alias=True))

    def notifications(self) -> list[NotificationBinding[Any]]:
        return [NotificationBinding(method="notifications/tasks", params_type=Anything, handler=self._note)]


@requirement("C-024", "S-053")
async def test_the_sdks_own_client_can_listen_in_memory(server: TaskServer, steps: Steps) -> None:
    extension = Listening()
    async with Client(server, mode=VERSION, extensions=[extension]) as client:
        engine = server.tasks.running.engine
        task = await engine.submit("steps", {"notes": []}, meta={"protocolVersion": VERSION, "capabilities": ABLE})
        wanted = types.SubscriptionFilter.model_validate({"taskIds": [task.id]})
        request = types.SubscriptionsListenRequest(params=types.SubscriptionsListenRequestParams(notifications=wanted))
        listening = asyncio.create_task(client.session.send_request(request, types.SubscriptionsListenResult))
        statuses: list[str] = []
        async with asyncio.timeout(PATIENCE):
            while not statuses or statuses[-1] == "working":
                statuses.append((await extension.told.get())["status"])
                steps.go_on.release()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    assert statuses[-1] == "completed"
