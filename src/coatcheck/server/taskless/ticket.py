"""A ticket: a tool result that stands for one still to come, for a model to act on."""

from __future__ import annotations

from typing import Any

from mcp_types import CallToolResult, TextContent
from msgspec import to_builtins

from coatcheck.dialects import v2025
from coatcheck.dialects.words import message
from coatcheck.payload import decode
from coatcheck.task import Status, Task

SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Ticket",
    "description": "The call goes on as a task; collect its result with wait_task.",
    "required": ["task"],
    "properties": {
        "task": {
            "type": "object",
            "required": ["taskId", "tool", "status"],
            "properties": {
                "taskId": {"type": "string"},
                "tool": {"type": "string"},
                "status": {"enum": [status.value for status in Status]},
                "statusMessage": {"type": "string"},
                "questions": {"type": "array"},
                "createdAt": {"type": "string"},
                "expiresAt": {"type": ["string", "null"]},
            },
        }
    },
}


def write_ticket(task: Task) -> CallToolResult:
    text = TextContent(type="text", text=_sentence(task))
    return CallToolResult(content=[text], structured_content={"task": describe(task)})


def describe(task: Task) -> dict[str, Any]:
    """Return what there is to know of a task but its result."""
    said, questions = message(task), _questions(task)
    return to_builtins(
        {
            "taskId": task.id,
            "tool": task.call.tool,
            "status": v2025.status(task),
            **({"statusMessage": said} if said else {}),
            **({"questions": questions} if questions else {}),
            "createdAt": task.created_at,
            "expiresAt": task.expires_at,
        }
    )


def line(task: Task) -> str:
    """Return the same in one line."""
    said = message(task)
    return f"{task.id}: {task.call.tool}, {v2025.status(task).value}" + (f" ({said})" if said else "")


def _questions(task: Task) -> list[dict[str, Any]]:
    return [
        {"question": key, "method": request.method, "params": decode(request.params)}
        for key, request in task.input_requests.items()
    ]


def _sentence(task: Task) -> str:
    tool, task_id = task.call.tool, task.id
    so_far = f": {said}" if (said := message(task)) else ""
    match task.status:
        case Status.INPUT_REQUIRED:
            asked = "; ".join(_asked(question, len(task.input_requests) > 1) for question in _questions(task))
            return (
                f"{tool} goes on as task {task_id} and needs an answer first: {asked}. Find out the answer, call "
                f'answer_task with task_id "{task_id}" and the answer as content, then wait_task.'
            )
        case Status.WORKING:
            return (
                f"{tool} is not done yet and goes on as task {task_id}{so_far}. Nothing is lost: "
                f'call wait_task with task_id "{task_id}" to get the result, or cancel_task to stop it.'
            )
        case _:
            return f"Task {task_id} of {tool} is {v2025.status(task).value}{so_far}."


def _asked(question: dict[str, Any], is_one_of_many: bool) -> str:
    """Return what is asked, in words: some models see nothing else of a result."""
    params: dict[str, Any] = question["params"]
    schema: dict[str, Any] = params.get("requestedSchema") or {}
    said = [str(params.get("message") or _prompt(params) or question["method"])]
    if url := params.get("url"):
        said.append(f"at {url}")
    if fields := ", ".join(schema.get("properties", ())):
        said.append(f"(fields: {fields})")
    if is_one_of_many:
        said.append(f'(question "{question["question"]}")')
    return " ".join(said)


def _prompt(params: dict[str, Any]) -> str:
    """Return the text of what a model is to answer."""
    texts: list[str] = []
    for asked in params.get("messages") or ():
        content: list[dict[str, Any]] | dict[str, Any] = asked["content"]
        blocks = content if isinstance(content, list) else [content]
        texts += [block["text"] for block in blocks if block.get("type") == "text"]
    return " ".join(texts)
