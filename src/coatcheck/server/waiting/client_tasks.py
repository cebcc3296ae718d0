"""Questions that clients keep as tasks of their own, so that nobody is asked twice after a reconnect."""

from __future__ import annotations

import weakref

_MOST = 10_000


class ClientTasks:
    """Which task of a client stands for which question of ours; forgotten with the client's connection."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[weakref.ref[object], str]] = {}

    def put(self, task_id: str, question: str, client: object, client_task: str) -> None:
        if len(self._kept) >= _MOST:  # of tasks that ended while nobody waited for them
            del self._kept[next(iter(self._kept))]
        self._kept[task_id, question] = (weakref.ref(client), client_task)

    def get(self, task_id: str, question: str, client: object) -> str | None:
        known, client_task = self._kept.get((task_id, question), (None, None))
        return client_task if known and known() is client else None

    def pop(self, task_id: str, question: str, client: object) -> str | None:
        found = self.get(task_id, question, client)
        if found is not None:
            del self._kept[task_id, question]
        return found
