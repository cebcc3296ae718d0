"""What the fuzz has found and what is let pass elsewhere, in its smallest form."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from anyio import ClosedResourceError
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CLIENT_CAPABILITIES_META_KEY
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

from coatcheck import Status
from coatcheck.cli.logs import JSONLines
from tests.fuzz.asgi import PATIENCE, Answer, send
from tests.fuzz.checks import created, heard_errors, told
from tests.fuzz.messages import LEGACY, Message, headers_for, message, request
from tests.fuzz.processes import Client, a_process
from tests.fuzz.served import Number, a_server, an_asking_task, running
from tests.fuzz.values import Raw, write

pytestmark = pytest.mark.anyio

HUGE = "9" * 4_400
CAPABILITIES = {"not UTF-8": '"\udcff"', "beyond a float": "1e999", "a very long number": HUGE}


@asynccontextmanager
async def both_ways() -> AsyncGenerator[tuple[ASGIApp, ASGIApp, str]]:
    """Give the SDK's application and ours, of the same server, and the id of a task that asks."""
    server = a_server("memory://")
    long = MCPServer.streamable_http_app(server, json_response=True)
    short = server.streamable_http_app(json_response=True)
    async with running(long), running(short):
        yield long, short, (await an_asking_task(server.tasks.running.engine, None)).id


def a_poll(task_id: str, **meta: Any) -> Message:
    body = request("tasks/get", 1, taskId=task_id)
    body["params"]["_meta"].update(meta)
    return message(body)


def with_header(given: Message, name: bytes, value: bytes) -> Message:
    return replace(given, headers=(*(header for header in given.headers if header[0] != name), (name, value)))


async def asked_both(poll: Message, long: ASGIApp, short: ASGIApp) -> tuple[Answer, Answer]:
    return await send(long, poll), await send(short, poll)


@pytest.mark.parametrize("case", CAPABILITIES)
async def test_capabilities_that_cannot_be_read_are_no_500(case: str) -> None:
    async with both_ways() as (long, short, task_id):
        capabilities = {"experimental": {"x": Raw(CAPABILITIES[case])}}
        poll = a_poll(task_id, **{CLIENT_CAPABILITIES_META_KEY: capabilities})
        expected, got = await asked_both(poll, long, short)
        assert (got.status, got.raised) == (expected.status, None)


@pytest.mark.parametrize("value", ['"\udcff"', HUGE])
async def test_the_shorter_way_refuses_what_is_no_json_for_the_sdk(value: str) -> None:
    async with both_ways() as (long, short, task_id):
        poll = message({**request("tasks/get", 1, taskId=task_id), "skipped": Raw(value)})
        expected, got = await asked_both(poll, long, short)
        assert got.status == expected.status == 400


@pytest.mark.parametrize("token", [{}, 1.5, None])
async def test_the_shorter_way_refuses_a_progress_token_that_is_none(token: Any) -> None:
    async with both_ways() as (long, short, task_id):
        expected, got = await asked_both(a_poll(task_id, progressToken=token), long, short)
        assert got.status == expected.status == 400


async def test_the_shorter_way_reads_accept_as_the_sdk_does() -> None:
    async with both_ways() as (long, short, task_id):
        poll = with_header(a_poll(task_id), b"accept", b"text/event-stream;x=application/json")
        expected, got = await asked_both(poll, long, short)
        assert got.status == expected.status == 406


async def test_the_shorter_way_refuses_a_body_that_is_too_long() -> None:
    async with both_ways() as (long, short, task_id):
        poll = a_poll(task_id)
        expected, got = await asked_both(replace(poll, chunks=(poll.body, b" " * 5_000_000)), long, short)
        assert got.status == expected.status == 413


@pytest.mark.parametrize("method", ["tasks/update", "tools/call"])
async def test_what_is_deep_and_half_a_surrogate_pair_is_refused_as_a_parameter(method: str) -> None:
    deep = Raw("[" * 850 + '"\\ud800"' + "]" * 850)
    async with both_ways() as (_, short, task_id):
        body = request("tools/call", 1, name="take", arguments={"value": deep})
        if method == "tasks/update":
            body = request("tasks/update", 1, taskId=task_id, inputResponses={"a": deep})
        with heard_errors():
            answer = await send(short, message(body))
        assert b"-32603" not in answer.body


async def test_a_name_in_base64_that_is_not_ascii_is_refused_as_a_wrong_one() -> None:
    async with both_ways() as (_, short, task_id):
        with heard_errors(is_forgiving=False) as errors:
            answer = await send(short, with_header(a_poll(task_id), b"mcp-name", b"=?base64?\xff?="))
        assert b"-32020" in answer.body
        assert errors == []


async def test_a_body_that_hears_of_its_cancellation_when_it_asks_has_not_crashed() -> None:
    server, gate = a_server("memory://"), asyncio.Event()

    async def late(ctx: Context) -> str:
        await gate.wait()
        await ctx.elicit("Which number?", Number)
        return "asked"

    server.add_tool(late, task="required")
    app = server.streamable_http_app(json_response=True)
    with heard_errors(is_forgiving=False) as errors:
        async with running(app):
            task_id = created(await send(app, message(request("tools/call", 1, name="late"))))
            assert task_id
            await server.tasks.running.engine.cancel(task_id)
            gate.set()
    assert [told(error) for error in errors] == []


async def test_half_a_surrogate_pair_does_not_cost_a_tool_its_result() -> None:
    server = a_server("memory://")

    async def half() -> str:
        return "a\ud800b"

    server.add_tool(half, task="required")
    app = server.streamable_http_app(json_response=True)
    async with running(app):
        engine = server.tasks.running.engine
        task_id = created(await send(app, message(request("tools/call", 1, name="half"))))
        assert task_id
        assert (await engine.finished(await engine.get(task_id), PATIENCE)).status == Status.COMPLETED


def test_half_a_surrogate_pair_can_be_logged_as_json() -> None:
    JSONLines().format(logging.LogRecord("any", logging.ERROR, "file", 1, "It said %s", ("\ud800",), None))


@pytest.mark.slow
async def test_listening_without_an_id_is_dropped_without_a_word(tmp_path: Path) -> None:
    notification = request("subscriptions/listen", notifications={"taskIds": ["any"]})
    del notification["id"]
    async with a_process(tmp_path, "--stdio") as served:
        client = Client(served)
        await client.ask("first", "tools/list")
        await client.send(write(notification).encode())
        await client.ask("last", "tools/list")
        await client.leave()
    assert b"Traceback" not in served.said()


@pytest.mark.parametrize("version", [b"2026-07-28", b"2025-11-25"])
async def test_a_bare_server_of_the_sdk_calls_it_its_own_fault_when_a_client_goes(version: bytes) -> None:
    app = MCPServer("bare", log_level="ERROR").streamable_http_app(json_response=True)
    cut = message(request("tools/list"))
    async with running(app):
        with heard_errors():
            answer = await send(app, replace(with_header(cut, b"mcp-protocol-version", version), is_cut=True))
    assert answer.status == 500
    assert answer.raised is None or isinstance(answer.raised, ClientDisconnect)


async def test_a_bare_server_of_the_sdk_has_a_500_for_a_name_in_base64_that_is_not_ascii() -> None:
    app = MCPServer("bare", log_level="ERROR").streamable_http_app(json_response=True)
    async with running(app):
        call = with_header(message(request("tools/call", 1, name="any")), b"mcp-name", b"=?base64?\xff?=")
        assert (await send(app, call)).status == 500


async def test_a_bare_server_of_the_sdk_has_a_500_for_what_meets_the_end_of_its_session() -> None:
    app = MCPServer("bare", log_level="ERROR").streamable_http_app(json_response=True)
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "any", "version": "1"}}
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    async with running(app):
        with heard_errors(is_forgiving=False) as errors:
            opened = await send(app, in_the_older_way(opening))
            calls = [{"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in range(8)]
            session = opened.headers[b"mcp-session-id"]
            sent = [with_header(in_the_older_way(call), b"mcp-session-id", session) for call in calls]
            sent.insert(4, replace(sent[0], verb="DELETE"))
            answers = await asyncio.gather(*(send(app, each) for each in sent))
    assert 500 in [answer.status for answer in answers]
    assert {type(error.exc_info[1]) for error in errors if error.exc_info} <= {ClosedResourceError}


def in_the_older_way(body: Any) -> Message:
    return replace(message(body), headers=headers_for(body, version=LEGACY))
