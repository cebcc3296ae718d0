"""A tool of an `MCPServer` as work for our worker: run through the SDK, its outcome in our words."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, InputRequiredResult, InputResponseRequestParams, TextContent

from coatcheck.context import TaskContext
from coatcheck.errors import ToolFailed
from coatcheck.execution import was_taken_away
from coatcheck.payload import encode
from coatcheck.server.bodies.background import TaskChannel, background_context, inputs
from coatcheck.server.bodies.kinds import TOOL, kind_of
from coatcheck.server.calls.record import restore_caller, restore_request
from coatcheck.server.calls.stand_in import running
from coatcheck.server.runtime import Running
from coatcheck.tool import Outcome

logger = logging.getLogger("coatcheck")


async def run_body(served: Running, context: TaskContext, arguments: Mapping[str, Any], takes_context: bool) -> Outcome:
    """Run what a task is of and return its result, encoded. Only if it takes a `Context` is one made.

    Raises:
        ToolFailed: It raised a JSON-RPC error, which is kept as it is.
    """
    running.set(context)
    # It is a call like any other, as far as its body can see.
    if user := served.vigils.lines.user_of(context.task.id) or restore_caller(restore_request(context.task.call.meta)):
        auth_context_var.set(user)
    call = context.task.call
    kind = kind_of(call.tool)
    given: InputResponseRequestParams | None = None
    try:
        while True:
            sdk_context = background_context(served, context, given) if takes_context else None
            result = await kind.run(served.server, call.tool, arguments, sdk_context)
            if not isinstance(result, InputRequiredResult):
                return kind.write(result, arguments)
            if served.vigils.lines.take_round(context.task.id):
                return Outcome(encode(result.model_dump(by_alias=True, mode="json", exclude_none=True)))
            # What it asks by multi-round-trip now is asked of the task's caller.
            given = inputs(await _answers(served, context, result), result.request_state)
    except MCPError as error:
        _raise_taken_away(error.__cause__, context)
        raise ToolFailed(error.message, error.code, error.data) from error
    except ToolError as error:
        _raise_taken_away(error, context)
        if isinstance(error, UnexpectedToolError):
            logger.error("Tool %r crashed in task %s", call.tool, context.task.id, exc_info=error)
        return TOOL.write(CallToolResult(content=[TextContent(type="text", text=str(error))], is_error=True), arguments)
    finally:
        if context.family:
            await context.family.close()


def _raise_taken_away(error: BaseException | None, context: TaskContext) -> None:
    """Raise what the body raised because its task was taken away while it ran."""
    if error and error.__cause__ and was_taken_away(error.__cause__, context.task.id):
        raise error.__cause__ from error


async def _answers(served: Running, context: TaskContext, result: InputRequiredResult) -> dict[str, Any]:
    channel = TaskChannel(context, served.vigils.lines)
    asked = {
        key: question.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, question in (result.input_requests or {}).items()
    }
    answers = await asyncio.gather(
        *(channel.send_raw_request(question["method"], question.get("params")) for question in asked.values())
    )
    return dict(zip(asked, answers, strict=True))
