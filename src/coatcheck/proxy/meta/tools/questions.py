"""The tools for what servers ask: elicitations and sampling requests."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal, cast

from pydantic import Field

from coatcheck.answers import check, elicitation_answer, request_of
from coatcheck.client.wire import Json
from coatcheck.errors import TaskNotFound
from coatcheck.payload import encode
from coatcheck.proxy.meta.counter import Caller, Counter, Ctx
from coatcheck.proxy.meta.pending import PendingRequest
from coatcheck.proxy.meta.refusals import INVALID_ARGUMENT, ToolRefusal
from coatcheck.proxy.states import RequestEvent

_ELICITATION, _SAMPLING = "elicitation/create", "sampling/createMessage"
RequestId = Annotated[str, Field(description="The request's id, as pending_client_action shows it")]


class QuestionTools:
    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    async def get_elicitations(self, ctx: Ctx, server: str | None = None) -> Json:
        """List what servers want to know from the person you work for, with the fields they ask for."""
        caller = await self._counter.caller(ctx)
        return {"elicitations": [each.to_json() for each in caller.activity.pending.list(_ELICITATION, server)]}

    async def respond_to_elicitation(
        self,
        ctx: Ctx,
        request_id: RequestId,
        action: Annotated[Literal["accept", "decline", "cancel"], Field(description="accept comes with content")],
        content: Annotated[dict[str, Any] | None, Field(description="The fields asked for")] = None,
    ) -> Json:
        """Answer what a server wants to know. Find out the answer from the person first."""
        caller = await self._counter.caller(ctx)
        if action != "accept" and content is not None:
            raise ToolRefusal(INVALID_ARGUMENT, f"There is no content to {action}; leave it out, or accept.")
        answer: Json = {"action": action, **({} if content is None else {"content": content})}
        _judge(caller.activity.pending.get(request_id, _ELICITATION), answer)
        request = caller.activity.pending.respond(request_id, _ELICITATION, action, answer)
        await self._note(caller, request)
        return {"success": True, "requestId": request.id, "state": request.state}

    async def cancel_elicitation_request(self, ctx: Ctx, request_id: RequestId) -> Json:
        """Dismiss what a server wants to know, without an answer."""
        caller = await self._counter.caller(ctx)
        request = caller.activity.pending.respond(request_id, _ELICITATION, RequestEvent.WITHDRAW, {"action": "cancel"})
        await self._note(caller, request)
        return {"success": True, "requestId": request.id, "state": request.state}

    async def get_sampling_requests(self, ctx: Ctx, server: str | None = None) -> Json:
        """List what servers want a model to write, with the messages that lead up to it."""
        caller = await self._counter.caller(ctx)
        return {"sampling_requests": [each.to_json() for each in caller.activity.pending.list(_SAMPLING, server)]}

    async def respond_to_sampling(
        self,
        ctx: Ctx,
        request_id: RequestId,
        content: Annotated[str | dict[str, Any], Field(description="What you write: text, or a content block")],
        model: Annotated[str, Field(description="Which model wrote it")] = "unknown",
        role: Literal["assistant", "user"] = "assistant",
        stop_reason: Annotated[str | None, Field(description="Why it ends there")] = "endTurn",
    ) -> Json:
        """Write what a server wants a model to write."""
        caller = await self._counter.caller(ctx)
        written: Json = {"type": "text", "text": content} if isinstance(content, str) else content
        if "type" not in written:
            raise ToolRefusal(INVALID_ARGUMENT, "A content block has a type; write plain text, or {type, text}.")
        answer: Json = {"role": role, "content": written, "model": model}
        if stop_reason is not None:
            answer["stopReason"] = stop_reason
        request = caller.activity.pending.respond(request_id, _SAMPLING, RequestEvent.COMPLETE, answer)
        await self._note(caller, request)
        return {"success": True, "requestId": request.id, "state": request.state}

    async def cancel_sampling_request(self, ctx: Ctx, request_id: RequestId) -> Json:
        """Refuse to write what a server wants."""
        caller = await self._counter.caller(ctx)
        request = caller.activity.pending.reject(request_id, _SAMPLING, "The client does not want to")
        await self._note(caller, request)
        return {"success": True, "requestId": request.id, "state": request.state}

    async def _note(self, caller: Caller, request: PendingRequest) -> None:
        """Write down that a task was answered, as far as it is known which."""
        desk = self._counter.tasking.running.desk
        if desk.audit.is_on and (task_id := request.task_id):
            with suppress(TaskNotFound):
                desk.audit.note("answer", await desk.engine.get(task_id, caller.owner))


def _judge(request: PendingRequest, answer: Json) -> None:
    """Refuse an answer that does not fit the question, which stays open. What it says is nobody's business here."""
    schema = request.params.get("requestedSchema")
    if isinstance(schema, dict):
        asked = request_of(request.method, request.params, elicitation_answer(cast("Json", schema)))
        check(request.id, asked, encode(answer))
