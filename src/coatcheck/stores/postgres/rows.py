"""Tasks as the tables have them."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from coatcheck.stores.columns import HELD, PARKED, WAITING, microseconds
from coatcheck.task import Task

LARGEST = (1 << 63) - 1
"""As a version, one that no task has."""
Row = tuple[object, ...]
BEGUN = HELD, PARKED
_encoder = msgspec.json.Encoder()


def new_row(task: Task, state: int, body: bytes, once: bytes | None) -> Row:
    """Return a task that is not kept yet, as the type `new_1` has it."""
    return (
        task.id,
        task.owner,
        task.version,
        number_of(task.owner),
        number_of(task.call.full_name),
        microseconds(task.created_at),
        microseconds(task.expires_at) if task.expires_at else None,
        state == WAITING,
        state in BEGUN,
        microseconds(task.lease.until) if task.lease else None,
        once,
        body,
    )


def next_row(task: Task, state: int, mark: int, body: bytes) -> Row:
    """Return the next version of a task, as the type `next_1` has it. By the mark it is known if it is sent twice."""
    is_begun = state in BEGUN
    return (
        task.id,
        task.version,
        number_of(task.owner),
        microseconds(task.created_at) if is_begun else None,
        microseconds(task.expires_at) if task.expires_at else None,
        state == WAITING,
        is_begun,
        microseconds(task.lease.until) if task.lease else None,
        mark & LARGEST,
        body,
    )


def once_of(task: Task) -> bytes | None:
    """Return what no two tasks with the same owner and idempotency key may share."""
    if task.idempotency_key is None:
        return None
    raw = f"{task.idempotency_key}\0{'-' if task.owner is None else f'+{task.owner}'}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, digest_size=16).digest()


@lru_cache(4096)
def number_of(text: str | None) -> int:
    """Return a number by which the index knows an owner or a tool, however long its name."""
    raw = b"-" if text is None else b"+" + text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big", signed=True)


def key_of(task_id: str) -> str:
    """Return what stands for a task when others are told of it. Two may share it: that wakes somebody for nothing."""
    return f"{zlib.crc32(task_id.encode('utf-8', 'surrogatepass')):08x}"


def is_storable(*texts: str | None) -> bool:
    """Say whether PostgreSQL can keep these texts. What it cannot, it cannot have either."""
    whole = "".join([text for text in texts if text])
    if not whole.isascii():
        try:
            whole.encode()
        except UnicodeEncodeError:
            return False
    return "\0" not in whole


def as_json(rows: Sequence[object]) -> str:
    return _encoder.encode(rows).decode()
