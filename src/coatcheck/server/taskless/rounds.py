"""A task's questions in rounds of the call itself, for clients of 2026-07-28 that know no tasks but can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from mcp_types import CallToolRequestParams

from coatcheck.errors import AlreadyFinished
from coatcheck.payload import decode
from coatcheck.server.calls.caller import MODERN
from coatcheck.server.hook import RequestContext
from coatcheck.server.runtime import Running
from coatcheck.server.waiting.peer import can_answer
from coatcheck.task import Task

_STATE = "coatcheck:"
"""What the client carries from round to round is the task, and sealed by the SDK."""


def can_be_asked(ctx: RequestContext, task: Task) -> bool:
    """Whether the caller can be asked all that the task asks, by answering its call with the questions."""
    declared, questions = ctx.session.client_capabilities, task.input_requests.values()
    is_able = all(can_answer(declared, question.method, decode(question.params)) for question in questions)
    return ctx.protocol_version in MODERN and bool(questions) and is_able


def write_round(task: Task) -> dict[str, Any]:
    asked = {
        key: {"method": request.method, "params": decode(request.params)}
        for key, request in task.input_requests.items()
    }
    return {"resultType": "input_required", "inputRequests": asked, "requestState": f"{_STATE}{task.id}"}


async def read_round(running: Running, ctx: RequestContext, params: CallToolRequestParams) -> Task | None:
    """Return the task whose questions this call answers, if it does.

    Raises:
        TaskNotFound: It is not there any more.
        InvalidAnswer: One does not fit; the questions are still open.
    """
    state = params.request_state
    if not state or not state.startswith(_STATE):
        return None
    task_id, owner = state.removeprefix(_STATE), running.identity.owner_of(ctx)
    responses: Any = (ctx.params or {}).get("inputResponses")
    task = await running.desk.get(task_id, owner)
    if task.status.is_terminal or not isinstance(responses, Mapping):
        return task
    try:
        return await running.desk.answer(task_id, owner, cast("Mapping[str, Any]", responses))
    except AlreadyFinished:
        return await running.desk.get(task_id, owner)
