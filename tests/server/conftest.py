"""A fresh place for tasks, a caller on each transport, and the mark for requirements."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any

import pytest
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension
from mcp_types import CallToolRequestParams

from coatcheck.server import TaskServer
from tests.requirements.marks import pytest_configure
from tests.server.wire import Caller, in_memory, over_http

__all__ = ["pytest_configure"]

# Its pytest plugin imports it in the middle of a report, which CPython 3.11 sometimes does not survive (gh-106905).
import_module("hypothesis")

Connect = Callable[..., AbstractAsyncContextManager[Caller]]


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COATCHECK_STORE", "COATCHECK_CONCURRENCY", "COATCHECK_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> TaskServer:
    """A server without tools, that keeps its tasks in memory."""
    return TaskServer("test", version="1", store="memory://")


@pytest.fixture
async def http(server: TaskServer) -> AsyncGenerator[Any]:
    async with over_http(server) as caller:
        yield caller


@pytest.fixture(params=[in_memory, over_http], ids=["memory", "http"])
def connect(request: pytest.FixtureRequest) -> Connect:
    """How to reach a server: with the SDK's client in memory, and with raw requests over HTTP."""
    return request.param


class Watching(Extension):
    """An extension of another that notes how every call was answered."""

    identifier = "com.example/watching"

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        try:
            result = await call_next(ctx)
        except Exception as error:
            self.seen.append(type(error).__name__)
            raise
        self.seen.append(str(result["resultType"]) if isinstance(result, dict) else type(result).__name__)
        return result
