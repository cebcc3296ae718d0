"""A task's open questions, put to whoever waits for the task. If several do, the one who came last is asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from mcp.shared.exceptions import MCPError

from coatcheck.dialects.words import INVALID_PARAMS, lifetime
from coatcheck.errors import AlreadyFinished, CoatcheckError, InvalidAnswer, TaskNotFound, TooLarge
from coatcheck.server.access.desk import Desk
from coatcheck.server.waiting.client_tasks import ClientTasks
from coatcheck.server.waiting.errands import Errands
from coatcheck.server.waiting.peer import Peer, Unreachable
from coatcheck.task import InputRequest, Task

logger = logging.getLogger("coatcheck")
_SETTLE_SECONDS = 0.5


class Relays:
    """Who waits for which task in this process."""

    def __init__(self, desk: Desk, errands: Errands) -> None:
        self.desk, self.errands = desk, errands
        self.client_tasks = ClientTasks()
        self._desks: dict[str, _Desk] = {}

    @contextmanager
    def open(self, peer: Peer, task: Task) -> Generator[Relay]:
        """Let `peer` be asked what the task asks, until the block ends."""
        desk = self._desks.setdefault(task.id, _Desk())
        relay = Relay(self, desk, peer)
        desk.relays[relay] = None
        try:
            yield relay
        finally:
            del desk.relays[relay]
            relay.drop_all()
            desk.assign()
            if not desk.relays:
                del self._desks[task.id]

    def is_open(self, task_id: str, since: float) -> bool:
        """Whether there is anyone to ask what this task asks, who came at that time or later."""
        desk = self._desks.get(task_id)
        return desk is not None and any(relay.came_at >= since for relay in desk.relays)

    def stream_opened(self, session: str) -> None:
        """Ask again over a session's standing stream: what was asked before it was there has reached nobody."""
        for desk in self._desks.values():
            for relay in desk.relays:
                relay.ask_again(session)


class _Desk:
    """All who wait for one task, and who asks what."""

    def __init__(self) -> None:
        self.relays: dict[Relay, None] = {}
        self.task: Task | None = None
        self.askers: dict[str, Relay] = {}
        self.answered: set[str] = set()
        """Questions whose answer is on its way to the task."""

    def assign(self) -> None:
        """Let each question be asked by the last who came of those who can be asked it, and nobody else."""
        questions = self.task.input_requests if self.task else {}
        for key in self.askers.keys() - questions.keys():
            self.askers.pop(key).withdraw(key)
        for key, request in questions.items():
            if key in self.answered:
                continue
            asker = next((relay for relay in reversed(self.relays) if relay.can_ask(key, request)), None)
            before = self.askers.pop(key, None)
            if asker:
                self.askers[key] = asker
            if before and before is not asker:
                before.give_up(key, asker)
            if asker and self.task:
                asker.ask(self.task, key, request)


class Relay:
    """One who waits for a task."""

    def __init__(self, relays: Relays, desk: _Desk, peer: Peer) -> None:
        self._relays, self._desk, self.peer = relays, desk, peer
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._dropped: set[asyncio.Task[None]] = set()
        self._tried: set[str] = set()
        self.came_at = asyncio.get_running_loop().time()

    @property
    def is_asking(self) -> bool:
        return any(not ask.done() for ask in self._asked.values())

    def leaves_unasked(self, task: Task) -> bool:
        """Whether the task asks something that nobody who waits for it can be asked."""
        return bool(task.input_requests.keys() - self._desk.askers.keys() - self._desk.answered)

    def sees(self, task: Task) -> None:
        """Have asked what is new in the task, and dropped what was answered elsewhere."""
        if self._desk.task is None or task.version >= self._desk.task.version:
            self._desk.task = task
        self._desk.assign()

    async def settle(self) -> None:
        """Wait until what was dropped has been taken back from the client; not for long, if that does not answer."""
        if self._dropped:
            await asyncio.wait(self._dropped, timeout=_SETTLE_SECONDS)

    def can_ask(self, key: str, request: InputRequest) -> bool:
        return key not in self._tried and self.peer.can_be_asked(request)

    def ask(self, task: Task, key: str, request: InputRequest) -> None:
        if key not in self._asked:
            self._asked[key] = self._relays.errands.run(self._ask(task, key, request))

    def ask_again(self, session: str) -> None:
        if self._asked and self.peer.is_asked_by(session):
            self.drop_all()
            self._desk.assign()

    def give_up(self, key: str, successor: Relay | None) -> None:
        """Leave a question to another; a client that keeps it as a task of its own need not any more."""
        self._drop(key)
        if successor and successor.peer.client is not self.peer.client:
            self._take_back(key)

    def withdraw(self, key: str) -> None:
        """Drop a question that is not open any more."""
        self._drop(key)
        self._take_back(key)

    def drop_all(self) -> None:
        for key in list(self._asked):
            self._drop(key)

    def _drop(self, key: str) -> None:
        ask = self._asked.pop(key, None)
        if ask and not ask.done():
            ask.cancel()
            self._dropped.add(ask)
            ask.add_done_callback(self._dropped.discard)

    def _take_back(self, key: str) -> None:
        task = self._desk.task
        client_task = self._relays.client_tasks.pop(task.id, key, self.peer.client) if task else None
        if client_task is not None:
            errand = self._relays.errands.run(self.peer.withdraw(client_task))
            self._dropped.add(errand)
            errand.add_done_callback(self._dropped.discard)

    async def _ask(self, task: Task, key: str, request: InputRequest) -> None:
        try:
            answer: dict[str, Any] | MCPError = await self._answer(task, key, request)
        except MCPError as error:
            answer = error
        except Unreachable:
            self._leave_open(key)
            return
        self._desk.answered.add(key)  # whoever comes or goes now, it counts
        await asyncio.shield(self._relays.errands.run(self._deliver(task, key, answer)))

    async def _deliver(self, task: Task, key: str, answer: dict[str, Any] | MCPError) -> None:
        desk = self._relays.desk
        try:
            with suppress(AlreadyFinished, TaskNotFound):  # too late, and nobody's fault
                if isinstance(answer, MCPError):
                    await self._fail(task, key, answer)
                    return
                try:
                    await desk.answer(task.id, task.owner, {key: answer}, is_final=True)
                except (InvalidAnswer, TooLarge) as error:
                    await self._fail(task, key, MCPError(INVALID_PARAMS, str(error)))
        except CoatcheckError as error:
            logger.error("Cannot keep an answer to task %s: %s", task.id, error)
            self._desk.answered.discard(key)
            self._leave_open(key)

    def _leave_open(self, key: str) -> None:
        """Leave a question to others."""
        self._tried.add(key)
        self._asked.pop(key, None)
        self._desk.assign()

    async def _answer(self, task: Task, key: str, request: InputRequest) -> dict[str, Any]:
        if not self.peer.takes_tasks(request):
            return await self.peer.ask(request, task.id, key)
        kept = self._relays.client_tasks
        client_task = kept.get(task.id, key, self.peer.client)
        if client_task is None:
            said = await self.peer.hand_in(request, task.id, key, lifetime(task))
            match said:
                case {"task": {"taskId": str(client_task)}}:
                    kept.put(task.id, key, self.peer.client, client_task)
                case _:
                    return said
        answer = await self.peer.collect(client_task)
        kept.pop(task.id, key, self.peer.client)
        return answer

    async def _fail(self, task: Task, key: str, error: MCPError) -> None:
        """What the tool would have seen in a plain call, it sees in a task."""
        self._relays.client_tasks.pop(task.id, key, self.peer.client)
        await self._relays.desk.engine.answer_with_error(
            task.id, task.owner, key, message=error.message, code=error.code, data=error.data
        )
