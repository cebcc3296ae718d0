"""A caller's tasks, page by page. Where it goes on is opaque to clients, and of use only to the one who got it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from coatcheck.errors import InvalidArgument
from coatcheck.server.access.desk import Desk
from coatcheck.task import Position, Task

_PAGE = 50
_BAD = "Invalid cursor; list from the beginning, without one"


class _Cursor(msgspec.Struct, array_like=True):
    created_at: datetime
    task_id: str
    seal: bytes


_decode = msgspec.msgpack.Decoder(_Cursor).decode


async def page(
    desk: Desk, owner: str | None, cursor: str | None, size: int = _PAGE
) -> tuple[Sequence[Task], str | None]:
    """Return tasks of an owner, newest first, and where to go on if there are more.

    Raises:
        InvalidArgument: The cursor is damaged, or was given to someone else.
    """
    try:
        after = None if cursor is None else read_cursor(cursor, owner)
    except InvalidArgument:
        desk.audit.denied(owner, "list", "the cursor is not of this caller")
        raise
    found = await desk.engine.list(owner, after=after, limit=size + 1)
    tasks = found[:size]
    desk.audit.listed(owner, len(tasks))
    return tasks, write_cursor(tasks[-1].position, owner) if len(found) > size else None


def write_cursor(position: Position, owner: str | None) -> str:
    """Return the cursor after the task at `position` in the listing of `owner`."""
    created_at, task_id = position
    raw = msgspec.msgpack.encode(_Cursor(created_at, task_id, _seal(position, owner)))
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def read_cursor(cursor: str, owner: str | None) -> Position:
    """Return the position a cursor stands for.

    Raises:
        InvalidArgument: It is damaged, or was given to someone else.
    """
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        found = _decode(raw)
        position = (found.created_at.astimezone(UTC), found.task_id)
    except (ValueError, OverflowError, msgspec.MsgspecError):
        raise InvalidArgument(_BAD) from None
    if cursor != write_cursor(position, owner):  # of two ways to write the same, one is not ours
        raise InvalidArgument(_BAD)
    return position


def _seal(position: Position, owner: str | None) -> bytes:
    """No secret: a forged cursor would only show its forger's own tasks."""
    whose = [owner, position[0].isoformat(), position[1]]
    return hashlib.blake2b(msgspec.json.encode(whose), digest_size=12).digest()
