"""Tasks as scripts take and return them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import count

from coatcheck.stores.codec import Codec
from coatcheck.stores.columns import microseconds, state_of
from coatcheck.stores.redis.connection import Word
from coatcheck.task import Entry, Task

_UNSWEPT = timedelta(days=1)
"""How much longer than its lifetime an ended task is kept where nobody sweeps."""
_MILLISECOND = timedelta(milliseconds=1)


class Rows:
    def __init__(self, codec: Codec, store: str) -> None:
        self._codec, self._key_id = codec, codec.key_id or ""
        self._store, self._numbers = store, count()

    def words(self, task: Task, entries: Sequence[Entry] = ()) -> list[Word]:
        """Return a row, and a token by which a write is known again should it arrive twice."""
        first = task.entries - len(entries) + 1
        return [
            raw(task.id),
            f"{self._store}.{next(self._numbers):x};",
            task.version,
            state_of(task),
            microseconds(task.created_at),
            _due(task),
            scope_of(task.owner),
            raw(task.call.full_name),
            self._key_id,
            key_of(task),
            _lifetime(task),
            task.entries,
            _expiry(task),
            self._codec.dump(task),
            *(self._codec.dump_entry(entry, task, number) for number, entry in enumerate(entries, start=first)),
        ]

    def task(self, task_id: str, scope: bytes, body: bytes) -> Task:
        return self._codec.load(body, task_id, owner_of(scope))

    def entries(self, task_id: str, scope: bytes, after: int, bodies: Sequence[bytes]) -> Sequence[Entry]:
        owner = owner_of(scope)
        return [
            self._codec.load_entry(body, task_id, owner, number) for number, body in enumerate(bodies, start=after + 1)
        ]


def raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def scope_of(owner: str | None) -> bytes:
    return b"-" if owner is None else b"+" + raw(owner)


def owner_of(scope: bytes) -> str | None:
    return None if scope == b"-" else scope[1:].decode("utf-8", "surrogatepass")


def key_of(task: Task) -> bytes:
    """Return a name for the owner and idempotency key; owners are as long as they say, so no two are the same."""
    if task.idempotency_key is None:
        return b""
    scope = scope_of(task.owner)
    return b"%d%b:%b" % (len(scope), scope, raw(task.idempotency_key))


def _due(task: Task) -> Word:
    """Return when the lease or the lifetime runs out, whichever is first."""
    moments = [moment for moment in (task.expires_at, task.lease and task.lease.until) if moment]
    return microseconds(min(moments)) if moments else ""


def _expiry(task: Task) -> Word:
    """Return when the lifetime runs out, where what is due next may be the end of a lease instead."""
    if task.lease is None:
        return ""
    return f"@{microseconds(task.expires_at)} " if task.expires_at else "@ "


def _lifetime(task: Task) -> Word:
    """Return for how many milliseconds Redis has to keep an ended task."""
    if not task.status.is_terminal or task.expires_at is None:
        return ""
    return max((task.expires_at - task.updated_at + _UNSWEPT) // _MILLISECOND, 1)
