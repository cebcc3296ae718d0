"""A task's open questions, put to whoever waits for the task. If several do, the one who came last is asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from mcp.shared.exceptions import MCPError

from coatcheck.dialects.words import INVALID_PARAMS, lifetime
from coatcheck.engine import Engine
from coatcheck.errors import AlreadyFinished, CoatcheckError, InvalidAnswer, TaskNotFound
from coatcheck.server.waiting.client_tasks import ClientTasks
from coatcheck.server.waiting.errands import Errands
from coatcheck.server.waiting.peer import Peer, Unreachable
from coatcheck.task import InputRequest, Task

logger = logging.getLogger("coatcheck")


class Relays:
    """Who waits for which task in this process."""

    def __init__(self, engine: Engine, errands: Errands) -> None:
        self.engine, self.errands = engine, errands
        self.client_tasks = ClientTasks()
        self._waiting: dict[str, dict[Relay, None]] = {}

    @contextmanager
    def open(self, peer: Peer, task: Task) -> Generator[Relay]:
        """Let `peer` be asked what the task asks, until the block ends."""
        relay = Relay(self, peer)
        waiting = self._waiting.setdefault(task.id, {})
        if waiting:
            next(reversed(waiting)).pause()
        waiting[relay] = None
        try:
            yield relay
        finally:
            del waiting[relay]
            relay.pause()
            if waiting:
                next(reversed(waiting)).resume()
            else:
                del self._waiting[task.id]

    def is_open(self, task_id: str) -> bool:
        """Whether there is anyone to ask what this task asks."""
        return task_id in self._waiting

    def stream_opened(self, session: str) -> None:
        """Ask again over a session's standing stream: what was asked before it was there has reached nobody."""
        for waiting in self._waiting.values():
            for relay in waiting:
                relay.ask_again(session)


class Relay:
    """One who waits for a task."""

    def __init__(self, relays: Relays, peer: Peer) -> None:
        self._relays, self._peer = relays, peer
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._tried: set[str] = set()
        self._seen: Task | None = None
        self._is_paused = False

    @property
    def is_asking(self) -> bool:
        return any(not ask.done() for ask in self._asked.values())

    def sees(self, task: Task) -> None:
        """Ask what is new in the task, and drop the questions that were answered elsewhere."""
        self._seen = task
        for key in self._asked.keys() - task.input_requests.keys():
            self._asked.pop(key).cancel()
            self._withdraw(task, key)
        if self._is_paused:
            return
        for key, request in task.input_requests.items():
            if key not in self._asked and key not in self._tried and self._peer.can_be_asked(request):
                self._asked[key] = self._relays.errands.run(self._ask(task, key, request))

    def pause(self) -> None:
        """Let someone else do the asking."""
        self._is_paused = True
        for ask in self._asked.values():
            ask.cancel()
        self._asked.clear()

    def resume(self) -> None:
        self._is_paused = False
        if self._seen:
            self.sees(self._seen)

    def ask_again(self, session: str) -> None:
        if self._asked and self._peer.is_asked_by(session):
            self.pause()
            self.resume()

    async def _ask(self, task: Task, key: str, request: InputRequest) -> None:
        engine = self._relays.engine
        try:
            with suppress(AlreadyFinished, TaskNotFound):  # too late, and nobody's fault
                try:
                    answer = await self._answer(task, key, request)
                    await engine.answer(task.id, task.owner, {key: answer}, is_final=True)
                except InvalidAnswer as error:
                    await self._fail(task, key, MCPError(INVALID_PARAMS, str(error)))
                except MCPError as error:
                    await self._fail(task, key, error)
        except Unreachable:
            self._tried.add(key)  # the question stays open for others
        except CoatcheckError as error:
            self._tried.add(key)
            logger.error("Cannot keep an answer to task %s: %s", task.id, error)

    async def _answer(self, task: Task, key: str, request: InputRequest) -> dict[str, Any]:
        if not self._peer.takes_tasks(request):
            return await self._peer.ask(request, task.id)
        kept = self._relays.client_tasks
        client_task = kept.get(task.id, key, self._peer.client)
        if client_task is None:
            said = await self._peer.hand_in(request, task.id, lifetime(task))
            match said:
                case {"task": {"taskId": str(client_task)}}:
                    kept.put(task.id, key, self._peer.client, client_task)
                case _:
                    return said
        answer = await self._peer.collect(client_task)
        kept.pop(task.id, key, self._peer.client)
        return answer

    async def _fail(self, task: Task, key: str, error: MCPError) -> None:
        """What the tool would have seen in a plain call, it sees in a task."""
        self._relays.client_tasks.pop(task.id, key, self._peer.client)
        await self._relays.engine.answer_with_error(
            task.id, task.owner, key, message=error.message, code=error.code, data=error.data
        )

    def _withdraw(self, task: Task, key: str) -> None:
        client_task = self._relays.client_tasks.pop(task.id, key, self._peer.client)
        if client_task is not None:
            self._relays.errands.run(self._peer.withdraw(client_task))
