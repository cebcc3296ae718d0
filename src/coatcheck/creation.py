"""A new task: what it is made of, looked at before it is written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import UNSET

from coatcheck import limits
from coatcheck.errors import InvalidArgument
from coatcheck.payload import Payload, encode
from coatcheck.policy import Policy, Terms, lifetime, poll_interval
from coatcheck.task import Task, ToolCall


def call_of(
    tool: str,
    version: str,
    arguments: Mapping[str, Any] | Payload,
    meta: Mapping[str, Any] | Payload,
    identity: Mapping[str, Any] | None,
) -> ToolCall:
    """Make a call.

    Raises:
        InvalidArgument: A part of it has no JSON form.
    """
    return ToolCall(
        tool=tool,
        version=version,
        arguments=_encode_object("arguments", arguments),
        meta=_encode_object("meta", meta),
        identity=UNSET if identity is None else _encode_object("identity", identity),
    )


def new_task(
    task_id: str,
    owner: str | None,
    call: ToolCall,
    idempotency_key: str | None,
    terms: Terms,
    policy: Policy,
    now: datetime,
) -> Task:
    """Make a task that waits for a worker.

    Raises:
        InvalidArgument: A name cannot be one, or a wish cannot be met.
        TooLarge: What is kept of the call has too many bytes.
    """
    names = {"tool": call.tool, "version": call.version or None, "owner": owner, "idempotency_key": idempotency_key}
    for name, value in names.items():
        if value is not None or name == "tool":
            _check_name(name, value)
    limits.check_call(call, policy)
    ttl = lifetime(policy, terms)
    return Task(
        id=task_id,
        owner=owner,
        call=call,
        created_at=now,
        updated_at=now,
        expires_at=None if ttl is None else now + ttl,
        poll_interval=poll_interval(policy, terms),
        resumable=terms.resumable,
        idempotency_key=idempotency_key,
    )


def _check_name(name: str, value: object) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= 512 or not value.isprintable():
        raise InvalidArgument(f"{name} must be printable text of 1 to 512 characters, but it is {value!r:.60}.")


def _encode_object(name: str, value: Mapping[str, Any] | Payload) -> Payload:
    if not isinstance(value, Payload | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{name} must be a mapping of names to JSON values, not {type(value).__name__}.")
    return encode(value)
