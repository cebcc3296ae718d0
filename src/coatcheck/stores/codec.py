"""Task to bytes and back, for stores that keep bytes; sealed with a key if there is one."""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from coatcheck.errors import KeyRefused, StoreUnusable
from coatcheck.task import Entry, Task

_encoder = msgspec.json.Encoder()
_tasks = msgspec.json.Decoder(Task)
_entries = msgspec.json.Decoder(Entry)
_Read = TypeVar("_Read")


class Sealer(Protocol):
    """Hides bytes from whoever has the store but not the key."""

    key_id: str
    key_ids: set[str]

    def seal(self, plain: bytes, task_id: str, owner: str | None, field: str) -> bytes: ...
    def open(self, sealed: bytes, task_id: str, owner: str | None, field: str) -> bytes: ...


class Codec:
    def __init__(self, sealer: Sealer | None = None) -> None:
        self._sealer = sealer

    @property
    def key_id(self) -> str | None:
        return self._sealer.key_id if self._sealer else None

    @property
    def key_ids(self) -> set[str]:
        return self._sealer.key_ids if self._sealer else set()

    def dump(self, task: Task) -> bytes:
        return self._seal(_encoder.encode(task), task.id, task.owner, "task")

    def load(self, body: bytes, task_id: str, owner: str | None) -> Task:
        plain = body if body.startswith(b"{") else self._open(body, task_id, owner, "task")
        return _decoded(_tasks, plain, task_id)

    def dump_entry(self, entry: Entry, task: Task, number: int) -> bytes:
        return self._seal(_encoder.encode(entry), task.id, task.owner, f"journal/{number}")

    def load_entry(self, body: bytes, task_id: str, owner: str | None, number: int) -> Entry:
        return _decoded(_entries, self._open(body, task_id, owner, f"journal/{number}"), task_id)

    def _seal(self, plain: bytes, task_id: str, owner: str | None, field: str) -> bytes:
        return self._sealer.seal(plain, task_id, owner, field) if self._sealer else plain

    def _open(self, body: bytes, task_id: str, owner: str | None, field: str) -> bytes:
        if body.startswith(b"{"):
            return body
        if self._sealer is None:
            raise KeyRefused("This store holds encrypted tasks; set COATCHECK_KEY to the key they were sealed with.")
        return self._sealer.open(body, task_id, owner, field)


def _decoded(decoder: msgspec.json.Decoder[_Read], body: bytes, task_id: str) -> _Read:
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise StoreUnusable(f"What the store holds for task {task_id} cannot be read: {error}") from error
