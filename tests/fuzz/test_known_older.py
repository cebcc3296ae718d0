"""What the fuzz has found in the way of 2025-11-25, in its smallest form."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from mcp.server.mcpserver import Context, MCPServer

from coatcheck.lifecycle import Completed
from coatcheck.payload import encode
from coatcheck.server import TaskServer
from coatcheck.server.http.app import http_app
from coatcheck.server.waiting.errands import Errands
from tests.fuzz.asgi import PATIENCE, Answer
from tests.fuzz.checks import answered, heard_errors, told
from tests.fuzz.messages import ANSWER
from tests.fuzz.older import HELLOS, Json, notification, request
from tests.fuzz.served import Number, a_held_task, a_server, ask, owner_in, running, stop
from tests.fuzz.sessions import Session, open_session
from tests.fuzz.values import Raw, Twice

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def a_session(
    server: TaskServer | None = None, *, has_streams: bool = True, hello: tuple[str, Json] = HELLOS[0]
) -> AsyncGenerator[tuple[TaskServer, Session]]:
    server = server or a_server("memory://")
    app = http_app(server, server.tasks) if has_streams else server.streamable_http_app(json_response=True)
    with heard_errors(is_forgiving=False):
        async with running(app):
            session = await open_session(app, 0, *hello)
            try:
                yield server, session
            finally:
                await stop(server.tasks.running.engine, owner_in(session.id))
                await session.end()


def post(session: Session, body: Any) -> asyncio.Task[Answer]:
    return session.post(session.fuzzer.post(body))


async def task_of(session: Session, tool: str) -> str:
    made = await session.ask("tools/call", f"make {tool}", name=tool, arguments={}, task={})
    return made["result"]["task"]["taskId"]


async def ends(posted: asyncio.Task[Answer]) -> bool:
    return bool((await asyncio.wait((posted,), timeout=PATIENCE))[0])


# Answers to what a tool asks

CLIENT_TASK = {"taskId": "own", "status": "working"}
LOST: dict[str, Callable[[Json], Json]] = {
    "odd _meta": lambda _: {"result": {**ANSWER, "_meta": []}},
    "an error of code -32000": lambda _: {"error": {"code": -32000, "message": "No"}},
    "a client's task of odd status": lambda question: a_client_task(question, status=["completed"]),
}


def a_client_task(question: Json, **odd: Any) -> Json:
    """Return the answer of a client that makes a task of what it is asked, and then tells how that is."""
    is_poll = question["method"] == "tasks/get"
    return {"result": {**CLIENT_TASK, **odd} if is_poll else {"task": CLIENT_TASK}}


@pytest.mark.parametrize("case", LOST)
async def test_whoever_is_asked_is_heard(case: str) -> None:
    async with a_session(hello=HELLOS[1 if "task" in case else 0]) as (_, session):
        waiting = post(session, request("tasks/result", "wait", taskId=await task_of(session, "ask")))
        for _ in range(2 if "task" in case else 1):
            question = await session.question(waiting)
            assert question
            await post(session, {"jsonrpc": "2.0", "id": question["id"], **LOST[case](question)})
        await session.question(waiting)


async def test_a_client_may_want_to_be_polled_in_aeons() -> None:
    async with a_session(hello=HELLOS[1]) as (_, session):
        waiting = post(session, request("tasks/result", "wait", taskId=await task_of(session, "ask")))
        with heard_errors(is_forgiving=False) as errors:
            for number in range(2):
                question = await session.question(waiting)
                assert question
                answer = a_client_task(question, pollInterval=10**400)
                await post(session, {"jsonrpc": "2.0", "id": question["id"], **answer})
                await session.ask("ping", number)
    assert [told(error) for error in errors] == []


async def test_two_questions_that_are_answered_at_once_cost_a_call_nothing() -> None:
    server = a_server("memory://")

    async def both(ctx: Context) -> str:
        await asyncio.gather(ctx.elicit("One?", Number), ctx.elicit("Two?", Number))
        return "both"

    server.add_tool(both, task="optional")
    async with a_session(server) as (_, session):
        call = post(session, request("tools/call", "call", name="both", arguments={}))
        questions = [await session.question(call), await session.question(call)]
        replies = [{"jsonrpc": "2.0", "id": question["id"], "result": ANSWER} for question in questions if question]
        await asyncio.gather(*(post(session, reply) for reply in replies))
        assert answered(await call)["result"]["content"] == [{"type": "text", "text": "both"}]


async def test_a_bare_server_of_the_sdk_has_a_tool_crash_of_what_is_no_answer() -> None:
    bare = MCPServer("bare", log_level="ERROR")
    bare.add_tool(ask)
    app = bare.streamable_http_app()
    with heard_errors(is_forgiving=False) as errors:
        async with running(app):
            session = await open_session(app, 0, *HELLOS[0])
            call = post(session, request("tools/call", "call", name="ask", arguments={}))
            question = await session.question(call)
            assert question
            await post(session, {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline", "content": 1}})
            assert answered(await call)["result"]["isError"]
            await session.end()
    assert len(errors) == 1


# Requests


async def test_a_lifetime_of_hundreds_of_digits_is_no_error_of_the_server() -> None:
    async with a_session() as (_, session):
        made = await session.ask("tools/call", 1, name="take", arguments={}, task={"ttl": 10**400})
        assert made.get("error", {}).get("code") in (None, -32602)


async def test_a_call_that_its_caller_cancels_elsewhere_is_no_error_of_the_server() -> None:
    async with a_session() as (_, session):
        call = post(session, request("tools/call", "call", name="ask", arguments={}))
        await session.question(call)
        listed = await session.ask("tasks/list", "list")
        await session.ask("tasks/cancel", "cancel", taskId=listed["result"]["tasks"][0]["taskId"])
        assert answered(await call)["error"]["code"] != -32603


READ_TWICE: dict[str, Json] = {
    "no JSON but to the SDK": {"params": {"_meta": {"x": Raw("NaN")}}},
    "two ids": {"id": Twice([], "wait")},
}


@pytest.mark.parametrize("has_streams", [True, False], ids=["streams", "json"])
@pytest.mark.parametrize("case", READ_TWICE)
async def test_what_the_sdk_can_read_is_answered(case: str, has_streams: bool) -> None:
    async with a_session(has_streams=has_streams) as (server, session):
        engine = server.tasks.running.engine
        held = await a_held_task(engine, owner_in(session.id))
        body = {**request("tasks/result", "wait", taskId=held.id), **READ_TWICE[case]}
        body["params"] = {"taskId": held.id, **body["params"]}
        waiting = post(session, body)
        await session.ask("ping", "ping")
        await engine.report(held, Completed(1, encode({"content": []})))
        answer = await waiting
        assert answer.raised is None
        assert answered(answer)["result"]["content"] == []


# Ends


async def test_an_errand_that_is_cancelled_at_once_leaves_no_trace() -> None:
    async def errand() -> None:
        """Never begun."""

    given = errand()
    cancelled = Errands().run(given)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    state = inspect.getcoroutinestate(given)
    given.close()
    assert state == inspect.CORO_CLOSED  # or Python complains that it was never awaited


@pytest.mark.parametrize("has_streams", [True, False], ids=["streams", "json"])
async def test_a_wait_that_is_cancelled_ends(has_streams: bool) -> None:
    async with a_session(has_streams=has_streams) as (_, session):
        waiting = post(session, request("tasks/result", "wait", taskId=await task_of(session, "linger")))
        await session.ask("ping", "ping")
        await post(session, notification("notifications/cancelled", requestId="wait"))
        assert await ends(waiting)


@pytest.mark.parametrize("has_streams", [True, False], ids=["streams", "json"])
async def test_a_session_that_ends_takes_its_waits_along(has_streams: bool) -> None:
    async with a_session(has_streams=has_streams) as (_, session):
        waiting = post(session, request("tasks/result", "wait", taskId=await task_of(session, "linger")))
        await session.ask("ping", "ping")
        await session.post(replace(session.fuzzer.post(b""), verb="DELETE"))
        assert await ends(waiting)


def watchers() -> list[Any]:
    return [task for task in asyncio.all_tasks() if "StatusNews" in repr(task.get_coro())]


async def test_nobody_watches_a_task_for_a_session_that_has_ended() -> None:
    async with a_session() as (server, session):
        other = await open_session(session.app, 0, *HELLOS[0])
        await task_of(other, "linger")
        watched = watchers()
        assert watched
        await other.end()
        try:
            _, watching = await asyncio.wait(watched, timeout=PATIENCE)
            assert not watching
        finally:
            await stop(server.tasks.running.engine, owner_in(other.id))
