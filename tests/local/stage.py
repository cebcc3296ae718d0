"""What these tests share: waiting for what a task asks or says, and reading what it returned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel

from coatcheck import Task
from coatcheck.server import LocalTask, TaskMeta

PATIENCE = 30
"""Seconds to wait for what should come at once."""
TASK = TaskMeta()


class Name(BaseModel):
    name: str


async def until(task: LocalTask[Any], is_so: Callable[[Task], bool]) -> Task:
    """Return the task once something is so of it."""
    async with asyncio.timeout(PATIENCE):
        await task.fetch()
        while not is_so(task.latest):
            assert not task.latest.status.is_terminal, task.latest
            await task.changed()
    return task.latest


async def asked(task: LocalTask[Any], questions: int = 1) -> Task:
    """Return the task once so many of its questions are open."""
    return await until(task, lambda now: len(now.input_requests) >= questions)


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text
