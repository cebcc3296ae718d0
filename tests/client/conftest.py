"""A server in memory, and clients of it in both generations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from mcp.client.session import ClientRequestContext
from mcp_types import CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult, TextContent

from coatcheck.client import Client
from coatcheck.client.client import Mode
from tests.client.app import make

GENERATIONS = ("2026-07-28", "2025-11-25")


class Person:
    """Answers whatever it is asked, and remembers it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        number = len(self.asked)
        self.is_asked.set()
        await self.may_answer.wait()
        return ElicitResult(action="accept", content={"name": f"number {number}"})

    async def sample(self, context: ClientRequestContext, params: CreateMessageRequestParams) -> CreateMessageResult:
        self.asked.append("sample")
        content = TextContent(type="text", text="Something")
        return CreateMessageResult(role="assistant", content=content, model="a person")


@pytest.fixture(params=GENERATIONS)
def mode(request: pytest.FixtureRequest) -> Mode:
    return cast("Mode", request.param)


@pytest.fixture
def person() -> Person:
    return Person()


@pytest.fixture
async def client(mode: Mode, person: Person) -> AsyncGenerator[Client]:
    """A client of a server in memory. It must leave nothing running."""
    options: dict[str, Any] = {"elicitation_callback": person.elicit, "sampling_callback": person.sample}
    async with Client(make(), mode=mode, **options) as opened:
        yield opened
    assert not running()


def running() -> list[str]:
    """Return what runs on the loop and is not of the test runner."""
    names = (getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks())
    return [name for name in names if not name.startswith("TestRunner.")]
