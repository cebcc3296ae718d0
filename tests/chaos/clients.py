"""Who hands tasks in, follows, answers and cancels them, over any server, and notes all it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from itertools import count
from random import Random
from typing import Any

from mcp.shared.exceptions import MCPError

from tests.chaos.calling import Caller, NoAnswer
from tests.chaos.history import TERMINAL, Handed, History, View, outcome_of, returned
from tests.chaos.nodes import Node
from tests.races.wire import NEWER, OLDER, RELATED, Json
from tests.server.wire import IDEMPOTENCY_KEY

TOOLS = ("quick", "quick", "quick", "once", "stubborn", "blocking", "steps", "steps", "ask")
"""What is called, and how often in relation."""
RESUMABLE = ("steps", "ask")
_SECONDS = (0.02, 0.02, 0.1, 0.1, 0.3, 1.5)
"""How long calls take, more or less."""
_INVALID_PARAMS = -32602
_WAIT = 5.0
"""How long to wait for news before asking anew."""


class Client:
    """One of many, each busy with one task at a time."""

    def __init__(
        self, name: str, chance: Random, callers: Mapping[str, Caller], servers: Sequence[Node], history: History
    ) -> None:
        self._name, self._chance = name, chance
        self._newer, self._older = callers[NEWER.version], callers[OLDER.version]
        self._caller = chance.choice((self._newer, self._older))
        self._servers, self._history = servers, history
        self._numbers = count()
        self.is_over = asyncio.Event()
        """Set when no more tasks are wanted."""

    async def live(self) -> None:
        """Hand in one task after the other, and do with each what people do."""
        while not self.is_over.is_set():
            task = await self._hand_in()
            if task is None:
                continue
            with suppress(NoAnswer):
                await self._deal_with(task)

    async def settle(self, task: Handed) -> None:
        """See a task to its end, however long nobody has."""
        while not await self._has_ended(task):  # noqa: ASYNC110, as it asks a server each time
            await asyncio.sleep(0.2)

    async def look(self, task: Handed, node: Node) -> View:
        """Ask a server how a task is, until it answers."""
        while True:
            with suppress(NoAnswer):
                return await self._poll(self._newer, task, node)
            await asyncio.sleep(0.2)

    async def collect(self, task: Handed, node: Node) -> None:
        """Wait for the outcome of a task as 2025-11-25 does."""
        asked_at = self._history.now
        try:
            result = await self._older.request(node, "tasks/result", {"taskId": task.id}, timeout=_WAIT)
            self._note(task, f"tasks/result of {node.name}", asked_at, "completed", returned(result))
        except MCPError as error:
            data: Any = error.data
            if isinstance(data, dict) and data["_meta"][RELATED] == {"taskId": task.id}:
                ended = ("cancelled", "") if error.code == _INVALID_PARAMS else ("failed", error.message)
                self._note(task, f"tasks/result of {node.name}", asked_at, *ended)
            else:
                self._history.wrong(task.id, "was promised, but its result is refused:", error)

    async def _hand_in(self) -> Handed | None:
        """Call a tool under a key of its own, again and again until a task is acknowledged."""
        tool, label = self._chance.choice(TOOLS), f"{self._name}-{next(self._numbers)}"
        arguments: Json = {"label": label}
        if tool != "quick":
            arguments["seconds"] = round(self._chance.choice(_SECONDS) * self._chance.uniform(0.5, 1.5), 3)
        wish: Json = {} if self._caller.kind.is_modern else {"task": {}}
        params: Json = {"name": tool, "arguments": arguments, "_meta": {IDEMPOTENCY_KEY: label}, **wish}
        task: Handed | None = None
        repeats = 1 + (self._chance.random() < 0.1)
        while repeats and not (self.is_over.is_set() and task is None):
            try:
                created = await self._caller.request(self._any(), "tools/call", params)
                created = created if self._caller.kind.is_modern else created["task"]
                task = self._history.acknowledged(created["taskId"], tool, label)
                repeats -= 1
            except NoAnswer:
                self._history.unanswered += 1
                await self._pause(0.2)
        return task

    async def _deal_with(self, task: Handed) -> None:
        if self._chance.random() < 0.2:
            await self._pause(self._chance.choice((0.0, 0.1, 1.0)))
            await self._cancel(task)
        elif self._chance.random() < 0.1:
            return  # and never ask for it
        elif task.tool != "ask" and self._chance.random() < 0.3:
            await (self._listen(task) if self._caller.kind.is_modern else self.collect(task, self._any()))
        while not (self.is_over.is_set() or await self._has_ended(task)):
            await self._pause(0.15)

    async def _has_ended(self, task: Handed) -> bool:
        """Look at a task, of either generation, and answer what it asks."""
        try:
            view = await self._poll(self._caller, task, self._any())
            if view.status == "input_required":
                await self._answer(task)
            return view.is_terminal
        except NoAnswer:
            self._history.unanswered += 1
            return False

    async def _poll(self, caller: Caller, task: Handed, node: Node) -> View:
        asked_at, how = self._history.now, f"tasks/get of {node.name}"
        try:
            seen = await caller.request(node, "tasks/get", {"taskId": task.id})
        except MCPError as error:
            self._history.wrong(task.id, "was promised, but", node.name, "says", error)
            return self._note(task, how, asked_at, "refused")
        return self._note(task, how, asked_at, seen["status"], outcome_of(seen) if caller.kind.is_modern else None)

    async def _listen(self, task: Handed) -> None:
        """Be told of changes, up to the end or until the stream breaks off."""
        node, asked_at = self._any(), self._history.now
        params = {"notifications": {"taskIds": [task.id]}}
        async with aclosing(self._newer.messages(node, "subscriptions/listen", params, _WAIT)) as messages:
            async for message in messages:
                if message.get("method") == "notifications/tasks":
                    seen = message["params"]
                    self._note(task, f"push of {node.name}", asked_at, seen["status"], outcome_of(seen))
                    if seen["status"] in TERMINAL:
                        return

    async def _answer(self, task: Handed) -> None:
        """Answer what it asks, sometimes twice and differently, over any servers at the same time."""
        seen = await self._newer.request(self._any(), "tasks/get", {"taskId": task.id})
        if questions := seen.get("inputRequests"):
            values = [f"{task.label}/{number}" for number in range(self._chance.choice((1, 1, 2)))]
            task.answers.update(values)
            answering = (self._send(task, questions, value) for value in values)
            await asyncio.gather(*answering, return_exceptions=True)

    async def _send(self, task: Handed, questions: Json, value: str) -> None:
        answer = {"action": "accept", "content": {"value": value}}
        params = {"taskId": task.id, "inputResponses": dict.fromkeys(questions, answer)}
        await self._newer.request(self._any(), "tasks/update", params)

    async def _cancel(self, task: Handed) -> None:
        task.is_cancel_sent = True
        try:
            said = await self._caller.request(self._any(), "tasks/cancel", {"taskId": task.id})
        except MCPError as error:
            if "already" not in error.message:
                self._history.wrong(task.id, "was promised, but cannot be cancelled:", error)
            task.ended_at = task.ended_at or self._history.now
            return
        task.ended_at = task.ended_at or self._history.now
        if said.get("status") == "cancelled":
            task.cancelled_at = task.cancelled_at or self._history.now

    def _note(self, task: Handed, how: str, asked_at: float, status: str, outcome: str | None = "") -> View:
        view = View(how, asked_at, self._history.now, status, outcome)
        task.views.append(view)
        return view

    def _any(self) -> Node:
        return self._chance.choice(self._servers)

    async def _pause(self, seconds: float) -> None:
        """Wait, unless everything is over before."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.is_over.wait(), seconds)
