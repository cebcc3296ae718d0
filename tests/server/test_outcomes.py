"""How tasks end: with the result or the error the call itself would have had, or cancelled."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

import pytest
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ContentBlock, ImageContent, TextContent
from pydantic import BaseModel

from coatcheck import StoreError, ToolFailed
from coatcheck.server import TaskContext, TaskPolicy, TaskServer
from tests.requirements.marks import requirement
from tests.server.conftest import Connect
from tests.server.wire import in_memory, over_http

pytestmark = pytest.mark.anyio


class Weather(BaseModel):
    city: str
    degrees: float
    wind: float | None = None


def _furnish(server: TaskServer) -> None:
    @server.tool(task=True)
    async def text() -> str:
        return "caf\u00e9 \U0001f9e5"

    @server.tool(task=True)
    async def model(city: str = "Oslo") -> Weather:
        return Weather(city=city, degrees=3)

    @server.tool(task=True)
    async def numbers() -> list[int]:
        return [1, 2]

    @server.tool(task=True)
    async def nothing() -> None: ...

    @server.tool(task=True)
    async def untyped() -> Any:
        return {"a": [None, 1.5]}

    @server.tool(task=True)
    async def numbers_without_json() -> list[float]:
        return [float("nan"), float("inf"), 1e300, -0.0]

    @server.tool(task=True)
    async def values() -> dict[str, Any]:
        return {"when": datetime(2026, 1, 1, tzinfo=UTC), "big": 2**70, "bytes": b"ab", "pair": (1, 2)}

    @server.tool(task=True)
    async def picture() -> list[ImageContent | TextContent]:
        return [
            ImageContent(type="image", data="AAAA", mime_type="image/png"),
            TextContent(type="text", text="a picture"),
        ]

    @server.tool(task=True)
    async def verbatim() -> CallToolResult:
        content: list[ContentBlock] = [TextContent(type="text", text="raw", _meta={"io.example/a": 1})]
        return CallToolResult(content=content, _meta={"io.example/k": [1, None]}, is_error=True)

    @server.tool(task=True)
    def in_a_thread(city: str = "Oslo") -> Weather:
        return Weather(city=city, degrees=4)

    _furnish_with_errors(server)


def _furnish_with_errors(server: TaskServer) -> None:
    @server.tool(task=True)
    async def tool_error() -> str:
        raise ToolError("the disk is full")

    @server.tool(task=True)
    async def crash() -> str:
        raise ValueError("password: hunter2")

    @server.tool(task=True)
    async def no_model() -> Weather:
        return "sunny"  # pyright: ignore[reportReturnType]


RESULTS = (
    *("text", "model", "numbers", "nothing", "untyped", "picture", "verbatim", "in_a_thread", "values"),
    "numbers_without_json",
)
ERRORS = ["tool_error", "crash", "no_model"]


@requirement("T-03", "S-029", "C-006", "R-17", "C-018")
@pytest.mark.parametrize("tool", [*RESULTS, *ERRORS])
async def test_a_result_is_that_of_a_plain_call(server: TaskServer, tool: str) -> None:
    _furnish(server)
    async with over_http(server) as caller:
        plain = await caller.again(capabilities={}).call(tool)
        result = await caller.result(tool)
    meta = plain.pop("_meta")
    del meta["io.modelcontextprotocol/serverInfo"]
    assert result == {**plain, **({"_meta": meta} if meta else {})}
    assert "io.modelcontextprotocol/related-task" not in result.get("_meta", {})


@requirement("S-066", "C-007", "R-01", "S-065")
@pytest.mark.parametrize("tool", [*ERRORS, "verbatim"])
async def test_a_tools_own_error_is_a_completed_task(server: TaskServer, connect: Connect, tool: str) -> None:
    _furnish(server)
    async with connect(server) as caller:
        done = await caller.finished(await caller.hand_in(tool))
    assert (done["status"], done["result"]["isError"]) == ("completed", True)
    assert "error" not in done


@requirement("R-03")
async def test_what_an_unexpected_exception_says_is_kept_from_the_caller(
    server: TaskServer, caplog: pytest.LogCaptureFixture
) -> None:
    _furnish(server)
    async with over_http(server) as caller:
        task_id = await caller.hand_in("crash")
        await caller.finished(task_id)
        answer = await caller.post(caller.message("tasks/get", {"taskId": task_id}))
    assert b"hunter2" not in answer.body
    logged = [record for record in caplog.records if record.levelno == logging.ERROR and record.exc_info]
    assert any(task_id in record.getMessage() for record in logged), "but it is logged, with the task's id"


@requirement("S-030", "R-02", "C-008", "T-04", "S-065", "S-016")
@pytest.mark.parametrize("data", [None, {"retry": [1, None]}, "text", 0, False, []])
async def test_a_protocol_error_is_a_failed_task_with_that_very_error(
    server: TaskServer, connect: Connect, data: Any
) -> None:
    @server.tool(task=True)
    async def refuse() -> str:
        raise MCPError(-32050, "not today", data)

    async with connect(server) as caller:
        done = await caller.finished(await caller.hand_in("refuse"))
    expected = {"code": -32050, "message": "not today", **({} if data is None else {"data": data})}
    assert (done["status"], done["error"]) == ("failed", expected)
    assert done["statusMessage"] == "not today"
    assert "result" not in done


@requirement("R-02")
async def test_a_tool_may_fail_its_task_in_our_words(server: TaskServer) -> None:
    @server.tool(task=True)
    async def refuse(task: TaskContext) -> str:
        raise ToolFailed("not today", code=-32050, data={"retry": 5})

    async with in_memory(server) as caller:
        done = await caller.finished(await caller.hand_in("refuse"))
    assert (done["status"], done.get("error")) == (
        "failed",
        {"code": -32050, "message": "not today", "data": {"retry": 5}},
    )


# Cancelling


class Endless:
    def __init__(self, server: TaskServer) -> None:
        self.started, self.stopped = asyncio.Event(), asyncio.Event()
        server.add_tool(self.run, "endless", task=True)

    async def run(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


@requirement("S-047", "R-05", "C-009", "C-011", "S-031", "ER-2")
async def test_a_cancellation_is_acknowledged_and_the_task_is_cancelled(server: TaskServer, connect: Connect) -> None:
    Endless(server)
    async with connect(server) as caller:
        task_id = await caller.hand_in("endless")
        acknowledged = await caller.cancel(task_id)
        polled = await caller.get(task_id)
    assert {name for name in acknowledged if name != "_meta"} == {"resultType"}
    assert acknowledged["resultType"] == "complete"
    assert (polled["status"], polled["resultType"]) == ("cancelled", "complete")
    assert not {"result", "error", "inputRequests"} & set(polled)


@requirement("S-048")
async def test_the_body_of_a_cancelled_task_is_stopped(server: TaskServer) -> None:
    endless = Endless(server)
    async with in_memory(server) as caller:
        task_id = await caller.hand_in("endless")
        await endless.started.wait()
        await caller.cancel(task_id)
        async with asyncio.timeout(5):
            await endless.stopped.wait()


@requirement("C-010", "R-04")
async def test_a_cancelled_task_may_be_cancelled_again(server: TaskServer, connect: Connect) -> None:
    Endless(server)
    async with connect(server) as caller:
        task_id = await caller.hand_in("endless")
        first = await caller.cancel(task_id)
        polled = await caller.get(task_id)
        assert await caller.cancel(task_id) == first
        assert await caller.get(task_id) == polled


@requirement("S-048", "C-010", "R-04")
@pytest.mark.parametrize("tool", ["text", "tool_error", "refuse"])
async def test_a_cancellation_that_comes_too_late_is_acknowledged_and_changes_nothing(
    server: TaskServer, connect: Connect, tool: str
) -> None:
    _furnish(server)

    @server.tool(task=True)
    async def refuse() -> str:
        raise MCPError(-32050, "not today")

    async with connect(server) as caller:
        task_id = await caller.hand_in(tool)
        done = await caller.finished(task_id)
        assert (await caller.cancel(task_id))["resultType"] == "complete"
        assert await caller.get(task_id) == done


@requirement("S-047")
async def test_a_task_that_asks_can_be_cancelled(server: TaskServer) -> None:
    @server.tool(task=True)
    async def ask(task: TaskContext) -> str:
        return str(await task.elicit("Who?", {"type": "object"}))

    async with in_memory(server) as caller:
        task_id = await caller.hand_in("ask")
        await caller.asked(task_id)
        await caller.cancel(task_id)
        polled = await caller.get(task_id)
    assert polled["status"] == "cancelled"
    assert "inputRequests" not in polled


async def test_a_late_result_of_a_cancelled_task_is_not_used(server: TaskServer) -> None:
    started, go_on, returned = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @server.tool(task=True)
    async def stubborn() -> str:
        started.set()
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            await go_on.wait()
        returned.set()
        return "done all the same"

    async with in_memory(server) as caller:
        task_id = await caller.hand_in("stubborn")
        await started.wait()
        await caller.cancel(task_id)
        go_on.set()
        await returned.wait()
        assert (await caller.get(task_id))["status"] == "cancelled"


# What is kept, and what goes wrong inside


@requirement("C-017", "R-12")
async def test_an_outcome_is_kept_for_a_while_however_short_the_ttl_was(server: TaskServer) -> None:
    @server.tool(task=TaskPolicy("optional", ttl=5))
    async def text() -> str:
        return "done"

    async with in_memory(server) as caller:
        task_id = await caller.hand_in("text")
        done = await caller.finished(task_id)
        assert [await caller.get(task_id) for _ in range(3)] == [done] * 3
    assert done["ttlMs"] >= 300_000, "five minutes from its end"


@requirement("S-062", "T-02")
async def test_a_store_that_is_out_of_order_is_an_internal_error_without_its_details(
    server: TaskServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    _furnish(server)
    async with connect(server) as caller:
        task_id = await caller.hand_in("text")
        engine = caller.tasks.running.engine

        async def broken(*_: Any, **__: Any) -> Any:
            raise StoreError("cannot open the file with the secret name")

        with monkeypatch.context() as patched:
            patched.setattr(engine, "get", broken)
            patched.setattr(engine, "answer", broken)
            patched.setattr(engine, "cancel", broken)
            for ask in (caller.get(task_id), caller.update(task_id, {}), caller.cancel(task_id)):
                with pytest.raises(MCPError) as failed:
                    await ask
                assert failed.value.code == -32603
                assert "secret" not in failed.value.message
                assert "try again" in failed.value.message
