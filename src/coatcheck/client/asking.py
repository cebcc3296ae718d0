"""A server's question, put to the callbacks of a session of the SDK."""

from __future__ import annotations

import mcp_types as types
from mcp.client.session import ClientRequestContext, ClientSession
from pydantic import TypeAdapter, ValidationError

from coatcheck.client.wire import Json
from coatcheck.errors import NotAnswered

_question: TypeAdapter[types.ElicitRequest | types.CreateMessageRequest | types.ListRootsRequest] = TypeAdapter(
    types.ElicitRequest | types.CreateMessageRequest | types.ListRootsRequest
)


async def put(session: ClientSession, method: str, params: Json, request_id: str | int) -> Json:
    """Return the answer, in the protocol's words.

    Raises:
        NotAnswered: The callback gave an error in place of one, or the question cannot be understood.
    """
    try:
        question = _question.validate_python({"method": method, "params": params}, by_name=False)
    except ValidationError as error:
        raise NotAnswered(f"Cannot understand a question of the server ({method})", types.INVALID_PARAMS) from error
    meta = question.params.meta if question.params else None
    answer = await session.dispatch_input_request(
        ClientRequestContext(session=session, request_id=request_id, meta=meta), question
    )
    if isinstance(answer, types.ErrorData):
        raise NotAnswered(answer.message, answer.code, answer.data)
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)
