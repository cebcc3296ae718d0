"""When the shorter way is not taken: an author's middleware, limits, sizes, tokens; and what it leaves as it was."""

from __future__ import annotations

import asyncio
import json
from types import new_class
from typing import Any

import pytest
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from opentelemetry import trace
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from coatcheck.server import TaskServer
from tests.requirements.marks import requirement
from tests.server.asgi import running
from tests.server.wire import OverHTTP, leaving_nothing, message, over_http

pytestmark = pytest.mark.anyio


class Watching:
    """A middleware of the author's."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        self.seen.append(ctx.method)
        return await call_next(ctx)


def _with_quick(server: TaskServer) -> TaskServer:
    @server.tool(task=True)
    async def quick() -> str:
        return "done"

    return server


async def test_an_authors_middleware_sees_polls() -> None:
    watching = Watching()
    server = _with_quick(TaskServer("test", store="memory://", middleware=[watching]))
    async with over_http(server) as caller:
        await caller.result("quick")
    assert watching.seen == ["tools/call", "tasks/get"]


async def test_traced_servers_go_the_way_that_leaves_traces(
    server: TaskServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with over_http(_with_quick(server)) as caller:
        task_id = await caller.hand_in("quick")
        poll = caller.message("tasks/get", {"taskId": task_id})
        assert (await caller.post(poll)).body.startswith(b'{"id"')  # the shorter way begins so
        monkeypatch.setattr(trace, "get_tracer_provider", trace.NoOpTracerProvider)
        assert (await caller.post(poll)).body.startswith(b'{"jsonrpc"')


async def test_a_middleware_that_is_added_later_sees_polls_from_then_on(server: TaskServer) -> None:
    watching = Watching()
    async with over_http(_with_quick(server)) as caller:
        task_id = await caller.hand_in("quick")
        await caller.finished(task_id)
        server.middleware.append(watching)
        await caller.get(task_id)
        server.middleware.remove(watching)
        await caller.get(task_id)
    assert watching.seen == ["tasks/get"]


async def test_a_middleware_derived_from_one_of_the_sdks_own_sees_polls(server: TaskServer) -> None:
    seen: list[str] = []
    original: Any = server.middleware[0]
    base: Any = object.__getattribute__(original, "__class__")

    async def noting(self: Any, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        seen.append(ctx.method)
        return await base.__call__(self, ctx, call_next)

    kind: Any = new_class("Derived", (base,), exec_body=lambda names: names.update(__call__=noting))
    derived: Any = object.__new__(kind)
    derived.__dict__.update(getattr(original, "__dict__", {}))
    server.middleware[0] = derived
    async with over_http(_with_quick(server)) as caller:
        await caller.result("quick")
    assert seen == ["tools/call", "tasks/get"]


async def test_an_authors_middleware_may_refuse_polls(server: TaskServer) -> None:
    async def refuse(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        return {"resultType": "complete", "refused": True} if ctx.method == "tasks/get" else await call_next(ctx)

    async with over_http(_with_quick(server)) as caller:
        task_id = await caller.hand_in("quick")
        await caller.finished(task_id)
        server.middleware.append(refuse)
        assert (await caller.get(task_id))["refused"] is True


async def test_a_body_larger_than_the_server_takes_is_refused(server: TaskServer) -> None:
    async with over_http(_with_quick(server), max_request_body_size=500) as caller:
        task_id = (
            await caller.again(capabilities={"extensions": {"io.modelcontextprotocol/tasks": {}}}).call("quick")
        )["taskId"]
        body = message("tasks/get", {"taskId": task_id, "_meta": {"io.example/long": "x" * 1000}})
        assert (await caller.post(body)).status == 413


async def test_a_body_in_many_pieces_is_read_to_its_end(server: TaskServer) -> None:
    async with over_http(_with_quick(server)) as caller:
        task_id = await caller.hand_in("quick")
        done = await caller.finished(task_id)
        body = json.dumps(message("tasks/get", {"taskId": task_id})).encode()
        pieces = [body[index : index + 7] for index in range(0, len(body), 7)]

        async def app(scope: Any, receive: Any, send: Any) -> None:
            left = list(pieces)

            async def in_pieces() -> dict[str, Any]:
                if left:
                    piece = left.pop(0)
                    return {"type": "http.request", "body": piece, "more_body": bool(left)}
                return await receive()

            await caller.app(scope, in_pieces, send)

        other = OverHTTP(app, server.tasks)
        assert (await other.post(message("tasks/get", {"taskId": task_id}))).message()["result"] == done


async def test_a_client_that_hangs_up_in_the_middle_of_its_body_is_no_error(server: TaskServer) -> None:
    async with over_http(_with_quick(server)) as caller:

        async def app(scope: Any, receive: Any, send: Any) -> None:
            left = [{"type": "http.request", "body": b'{"jsonrpc', "more_body": True}, {"type": "http.disconnect"}]

            async def cut_off() -> dict[str, Any]:
                return left.pop(0) if left else {"type": "http.disconnect"}

            try:
                await caller.app(scope, cut_off, send)
            except Exception as error:
                raised.append(type(error).__name__)

        raised: list[str] = []
        async with OverHTTP(app, server.tasks).open(message("tasks/get", {"taskId": "a"})) as sent:
            sent.hang_up()
        assert raised in ([], ["ClientDisconnect"])


@requirement("S-024")
async def test_limited_polls_are_counted() -> None:
    server = _with_quick(TaskServer("test", store="memory://", poll_limit=1))
    async with over_http(server) as caller:
        task_id = await caller.hand_in("quick")
        await caller.finished(task_id)
        answers = [await caller.post(caller.message("tasks/get", {"taskId": task_id})) for _ in range(30)]
    assert answers[-1].message()["error"]["code"] == -31429


async def test_a_poll_before_the_server_runs_or_after_is_no_different(server: TaskServer) -> None:
    app = _with_quick(server).streamable_http_app()
    caller = OverHTTP(app, server.tasks)
    with pytest.raises(RuntimeError):
        await caller.post(message("tasks/get", {"taskId": "a"}))
    async with running(app):
        assert (await caller.post(message("tasks/get", {"taskId": "a"}))).status == 400
    with pytest.raises(RuntimeError):
        await caller.post(message("tasks/get", {"taskId": "a"}))


# What the application was before


async def test_routes_of_the_author_are_still_there(server: TaskServer) -> None:
    @server.custom_route("/health", methods=["GET"], name="health")
    async def health(request: Request) -> Response:
        return PlainTextResponse("well")

    app = server.streamable_http_app()
    async with running(app):
        assert app.url_path_for("health") == "/health"
        assert {getattr(route, "path", None) for route in app.routes} == {"/mcp", "/health"}


async def test_many_polls_at_once_have_each_their_own_answer(server: TaskServer) -> None:
    @server.tool(task=True)
    async def echo(number: int) -> int:
        return number

    async with over_http(server) as caller:
        ids = [await caller.hand_in("echo", number=number) for number in range(50)]
        for task_id in ids:
            await caller.finished(task_id)
        answers = await asyncio.gather(
            *(caller.post(message("tasks/get", {"taskId": task_id}, message_id=task_id)) for task_id in ids)
        )
    assert [answer.message()["id"] for answer in answers] == ids
    assert [answer.message()["result"]["result"]["structuredContent"]["result"] for answer in answers] == [*range(50)]


async def test_an_application_made_twice_is_served_alike(server: TaskServer) -> None:
    _with_quick(server)
    first, second = server.streamable_http_app(), server.streamable_http_app()
    async with running(second), leaving_nothing(server.tasks):
        caller = OverHTTP(second, server.tasks)
        assert (await caller.result("quick"))["content"][0]["text"] == "done"
    assert first is not second
