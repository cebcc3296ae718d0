"""FastMCP's client against a server whose URL is the argument. Prints one line of JSON: what it saw."""
# It runs where FastMCP is installed; here it is not.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.exceptions import ToolError
from fastmcp_tasks import call_tool_task

QUESTIONS: list[str] = []


async def answer(message: str, _: Any, params: Any, __: Any) -> dict[str, Any]:
    QUESTIONS.append(message)
    properties = params.requested_schema["properties"]
    return {name: True if schema["type"] == "boolean" else f"asked {message}" for name, schema in properties.items()}


async def call(client: Client[Any], tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool as if there were no tasks; the client drives the task behind it."""
    asked = len(QUESTIONS)
    try:
        text = (await client.call_tool(tool, arguments)).content[0].text
    except ToolError as error:
        return {"error": str(error)}
    return {"text": text, "questions": QUESTIONS[asked:]}


async def drive(client: Client[Any]) -> dict[str, Any]:
    """Take the task itself, see it ask, and let the client answer and wait."""
    task = await call_tool_task(client, "confirm_delete", {"filename": "notes.txt"})
    asking = await task.wait(state="input_required", timeout=30)
    result = await task.result()
    finished = await task.status()
    return {
        "created": task.create_result.status,
        "asking": [request["method"] for request in asking.input_requests.values()],
        "text": result.content[0].text,
        "finished": finished.status,
    }


async def cancel(client: Client[Any]) -> dict[str, Any]:
    task = await call_tool_task(client, "slow_compute", {"seconds": 600})
    before = await task.status()
    await task.cancel()
    await task.cancel()
    after = await task.wait(timeout=30)
    return {"before": before.status, "after": after.status, "has_result": after.result is not None}


async def main(url: str) -> None:
    async with Client(url, elicitation_handler=answer) as client:
        report = {
            "greeted": await call(client, "greet", name="Ada"),
            "computed": await call(client, "slow_compute", seconds=0.2, label="It"),
            "confirmed": await call(client, "confirm_delete", filename="notes.txt"),
            "twice": await call(client, "multi_input"),
            "before": await call(client, "test_tool_with_task"),
            "wrong": await call(client, "failing_job"),
            "broken": await call(client, "protocol_error_job"),
            "driven": await drive(client),
            "cancelled": await cancel(client),
        }
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
