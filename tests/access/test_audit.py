"""The audit log: who did what to which task, and what was refused; nothing of what is in it."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from coatcheck import Policy
from coatcheck.server import Access, Rate, Rule, TaskServer, role
from tests.access.people import callers, guarded
from tests.requirements.marks import requirement
from tests.server.wire import over_http

pytestmark = pytest.mark.anyio

ANN, BOB = ('["app","https://issuer.example","ann"]', '["app","https://issuer.example","bob"]')
SECRETS = ("top-secret-argument", "top-secret-answer", "top-secret-result")


class Reply(BaseModel):
    text: str


def _audited(authorize: Rule | None = None, **options: Any) -> TaskServer:
    server = guarded(access=Access(audit=True, authorize=authorize), **options)

    @server.tool(task=True)
    async def ask(about: str, ctx: Context) -> str:
        answer = await ctx.elicit(f"What of {about}?", Reply)
        return f"{SECRETS[2]} {answer}"

    @server.tool(task=True, authorize=role("editor"), rate=Rate(1, per=3600))
    async def edit() -> str:
        return "done"

    return server


def _fields(log: pytest.LogCaptureFixture) -> Sequence[dict[str, Any]]:
    return [vars(record)["fields"] for record in log.records if record.name == "coatcheck.audit"]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "coatcheck.audit")
    return caplog


@requirement("G-017")
async def test_what_its_owner_does_to_a_task_is_written_down(log: pytest.LogCaptureFixture) -> None:
    async with callers(_audited()) as (ann, _, _eve):
        task_id = await ann.hand_in("ask", about=SECRETS[0])
        engine = ann.tasks.running.engine
        task = await engine.settled(await engine.get(task_id, ANN), 20)
        await ann.get(task_id)
        await ann.update(
            task_id, {key: {"action": "accept", "content": {"text": SECRETS[1]}} for key in task.input_requests}
        )
        await engine.finished(task, 20)
        await ann.get(task_id)
        other = await ann.hand_in("ask", about=SECRETS[0])
        await ann.cancel(other)
    about: dict[str, Any] = {"owner": ANN, "task": task_id, "tool": "ask"}
    assert _fields(log) == [
        {"event": "create", **about, "status": "working"},
        {"event": "read", **about, "status": "input_required"},
        {"event": "answer", **about, "status": "working"},
        {"event": "read", **about, "status": "completed"},
        {"event": "create", **about, "task": other, "status": "working"},
        {"event": "cancel", **about, "task": other, "status": "cancelled"},
    ]
    assert not any(secret in log.text for secret in SECRETS)


async def test_who_reaches_for_a_task_of_someone_else_is_written_down(log: pytest.LogCaptureFixture) -> None:
    async with callers(_audited()) as (ann, bob, _):
        task_id = await ann.hand_in("ask", about="x")
        log.clear()
        for attempt in (bob.get(task_id), bob.update(task_id, {}), bob.cancel(task_id)):
            with pytest.raises(MCPError):
                await attempt
        denied = _fields(log)
        await ann.cancel(task_id)
    assert [(entry["event"], entry["owner"], entry["wanted"]) for entry in denied] == [
        ("deny", BOB, "read"),
        ("deny", BOB, "answer"),
        ("deny", BOB, "cancel"),
    ]
    assert len({entry["task"] for entry in denied}) == 1
    assert task_id not in json.dumps(denied)  # it might be made up, and hold anything


async def test_calls_that_are_not_allowed_too_frequent_or_too_many_are_written_down(
    log: pytest.LogCaptureFixture,
) -> None:
    async with callers(_audited(policy=Policy(quota=1))) as (ann, bob, _):
        await ann.hand_in("edit")
        for caller, tool, arguments in ((bob, "edit", {}), (ann, "edit", {}), (bob, "ask", {"about": "x"})):
            try:
                await caller.call(tool, **arguments)
            except MCPError:
                continue
        with pytest.raises(MCPError):
            await bob.call("ask", about="y")
        for task in await bob.tasks.running.engine.list(BOB):
            await bob.cancel(task.id)
    reasons = [(entry["owner"], entry["reason"], entry["tool"]) for entry in _fields(log) if entry["event"] == "deny"]
    assert reasons == [
        (BOB, "not allowed", "edit"),
        (ANN, "too often", "edit"),
        (BOB, "too many unfinished tasks", "ask"),
    ]


async def test_ids_that_are_all_it_takes_to_have_a_task_are_not_written_down(log: pytest.LogCaptureFixture) -> None:
    server = TaskServer("test", store="memory://", access=Access(audit=True))

    @server.tool(task=True)
    async def quick() -> str:
        return "done"

    async with over_http(server) as anyone:
        task_id = await anyone.hand_in("quick")
        await anyone.finished(task_id)
    created, read = _fields(log)
    assert (created["event"], read["event"]) == ("create", "read")
    assert created["task"] == read["task"]
    assert created["task"].startswith("sha256:")
    assert task_id not in log.text


async def test_nothing_is_written_down_unless_it_is_wanted(log: pytest.LogCaptureFixture) -> None:
    server = guarded()

    @server.tool(task=True, authorize=role("editor"))
    async def edit() -> str:
        return "done"

    async with callers(server) as (ann, bob, _):
        await ann.get(await ann.hand_in("edit"))
        with pytest.raises(MCPError):
            await bob.call("edit")
    assert _fields(log) == []


async def test_what_a_caller_made_up_cannot_forge_a_line(log: pytest.LogCaptureFixture) -> None:
    async with callers(_audited(authorize=role("nobody"))) as (_, bob, _eve):
        with pytest.raises(MCPError):
            await bob.request("resources/read", {"uri": "x:\nINFO coatcheck.audit: event='create'"})
    (line,) = (record.getMessage() for record in log.records if record.name == "coatcheck.audit")
    assert "\n" not in line


async def test_long_names_are_cut_and_calls_that_become_no_task_leave_no_line(log: pytest.LogCaptureFixture) -> None:
    server = _audited(authorize=role("editor"))

    @server.tool()
    async def quick() -> str:
        return "done"

    async with callers(server) as (ann, bob, _):
        await ann.call("quick")
        with pytest.raises(MCPError):
            await bob.call("n" * 1000)
    (denied,) = _fields(log)
    assert denied["tool"] == "n" * 64


async def test_a_resource_that_is_left_out_of_a_stream_is_written_down(log: pytest.LogCaptureFixture) -> None:
    async with (
        callers(_audited(authorize=role("editor"))) as (_, bob, _eve),
        bob.listening(resourceSubscriptions=["docs://plan"]) as stream,
    ):
        await stream.message()
    (denied,) = _fields(log)
    assert (denied["event"], denied["wanted"], denied["resource"]) == ("deny", "subscriptions/listen", "docs://plan")
