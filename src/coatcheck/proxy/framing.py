"""What frames a message in one generation of the protocol, or between two parties, and is nobody else's business."""

from __future__ import annotations

from typing import Any, cast

from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import SERVER_INFO_META_KEY

from coatcheck.client.wire import Json
from coatcheck.dialects.words import QUESTION_KEY, RELATED_TASK

_FRAME = (RELATED_TASK, SERVER_INFO_META_KEY, SUBSCRIPTION_ID_META_KEY, QUESTION_KEY)


def neutral(result: Json) -> Json:
    """Return a result as it is in any generation; a round of questions is what it is in one."""
    bare = unframed(result)
    if bare.get("resultType", "input_required") == "input_required":
        return bare
    return {name: value for name, value in bare.items() if name != "resultType"}


def unframed(message: Json) -> Json:
    """Return a result, or the params of a question, without what its sender said to us alone."""
    meta: Any = message.get("_meta")
    if not isinstance(meta, dict) or not any(name in meta for name in _FRAME):
        return message
    kept = {name: value for name, value in cast("Json", meta).items() if name not in _FRAME}
    rest = {name: value for name, value in message.items() if name != "_meta"}
    return {**rest, "_meta": kept} if kept else rest
