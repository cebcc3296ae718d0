"""A server for clients without tasks, and how a ticket is read."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from coatcheck.server import TaskPolicy
from tests.v2025.bench import Bench
from tests.v2025.wire import Talk

TOOLS = {"get_task", "wait_task", "answer_task", "cancel_task", "list_tasks"}
"""What such clients are offered in place of tasks."""
PROMPTLY = TaskPolicy(promote_after=0.01)
"""Give tickets at once, more or less."""
REQUIRED = {"taskId", "tool", "status", "createdAt", "expiresAt"}

Json = dict[str, Any]


def a_bench(*tools: str, **options: Any) -> Bench:
    return Bench(*tools, **{"fallback_tools": True, **options})


def ticket(result: Json) -> Json:
    """Return the task a ticket stands for."""
    assert result["isError"] is False, result
    (block,) = result["content"]
    assert block["type"] == "text"
    assert result["structuredContent"].keys() == {"task"}
    task: Json = result["structuredContent"]["task"]
    assert REQUIRED <= task.keys() <= REQUIRED | {"statusMessage", "questions"}
    assert task["taskId"] in block["text"]
    assert task["tool"] in block["text"]
    assert datetime.fromisoformat(task["createdAt"]) < datetime.fromisoformat(task["expiresAt"])
    return task


async def a_ticket(caller: Talk, tool: str, /, **arguments: Any) -> str:
    """Call a tool that takes too long, and return the id on the ticket."""
    return ticket(await caller.use(tool, **arguments))["taskId"]


def complaint(result: Json) -> str:
    """Return the text of a refusal that a model can read."""
    assert result["isError"] is True, result
    (block,) = result["content"]
    return block["text"]
