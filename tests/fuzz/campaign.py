"""A run of thousands of messages against one application, with the rows looked at after every batch."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import SystemRandom
from typing import Any

from starlette.types import ASGIApp

from coatcheck import Engine, Task
from coatcheck.errors import Refused, TaskNotFound
from tests.fuzz.asgi import Answer, send
from tests.fuzz.checks import Rows, answered, complaints, created, everything, is_result, untold
from tests.fuzz.messages import Fuzzer, Message
from tests.fuzz.served import an_asking_task

BATCH = 40
SEED_VARIABLE = "COATCHECK_FUZZ_SEED"
_TALLY_EVERY = 25
_OPEN = 6
Exchange = tuple[Message, Answer]
_CHANGING = (b"tasks/cancel", b"tasks/update")


def a_seed() -> int:
    """Return a seed, and print it: to run the same messages again, set COATCHECK_FUZZ_SEED."""
    seed = int(os.environ.get(SEED_VARIABLE) or SystemRandom().randrange(2**32))
    print(f"{SEED_VARIABLE}={seed}")
    return seed


@dataclass
class Report:
    messages: int = 0
    statuses: Counter[int] = field(default_factory=Counter[int])
    faults: list[str] = field(default_factory=list[str])

    def fault(self, what: str, exchange: Exchange | None = None) -> None:
        sent, got = exchange or (None, None)
        self.faults.append(f"{what}\n  sent: {sent}\n  got:  {got}")

    def __str__(self) -> str:
        shown = "\n".join(self.faults[:10])
        return f"{len(self.faults)} faults in {self.messages} messages, {dict(self.statuses)}\n{shown}"


class Campaign:
    """`fixed` are the rows that nothing may change; the targets' open tasks may change, but only as was answered.

    `me` is the attacker as an owner of tasks.
    """

    def __init__(self, app: ASGIApp, engine: Engine, fuzzer: Fuzzer, fixed: Sequence[Task], me: str | None) -> None:
        self._app, self._engine, self._fuzzer, self._me = app, engine, fuzzer, me
        self._targets = fuzzer.targets
        self._fixed, self._mine = Rows(engine, fixed), Rows(engine, [])
        self._made: set[str] = set()
        self._unheard = 0
        """Calls whose task goes on, though its id was not said: their sender left, or got a sealed state instead."""
        self._unanswered: list[Message] = []
        """Changes asked for on streams that were left before the answer: each may still be made, once."""
        self._stopped: set[str] = set()
        """To be forgotten once their bodies have ended."""
        self.report = Report()

    async def run(self, messages: int) -> Report:
        for task_id in self._targets.open:
            self._mine.keep(await self._engine.get(task_id, self._me))
        for number in range(messages // BATCH):
            sent = [self._fuzzer.message() for _ in range(BATCH)]
            answers = await asyncio.gather(*(send(self._app, message) for message in sent))
            await self._judge(list(zip(sent, answers, strict=True)))
            if number % _TALLY_EVERY == _TALLY_EVERY - 1:
                await self._tally()
        await self._tally()
        return self.report

    async def _judge(self, exchanges: Sequence[Exchange]) -> None:
        self.report.messages += len(exchanges)
        for message, answer in exchanges:
            self.report.statuses[answer.status] += 1
            for complaint in complaints(message, answer):
                self.report.fault(complaint, (message, answer))
            self._judge_sight(message, answer)
            self._learn(answer)
            if answer.is_stream and not answered(answer):
                self._unheard += b"tools/call" in message.body
                if message.method in _CHANGING:
                    self._unanswered.append(message)
            self._unheard += b'"resultType":"input_required"' in answer.body
        for task_id, task in (await self._fixed.changed()).items():
            self.report.fault(f"{task_id} may not change, and became {task}", _last_of(exchanges, task_id))
        for task_id, task in (await self._mine.changed()).items():
            await self._judge_change(task_id, task, exchanges)

    def _judge_sight(self, message: Message, answer: Answer) -> None:
        """Whoever names the task of another gets no result of it."""
        if message.method.startswith(b"tasks/") and is_result(answer):
            name = dict(message.headers).get(b"mcp-name", b"")
            if name.decode("latin-1") in {*self._targets.foreign, *self._targets.expired}:
                self.report.fault("it was let at a task of another", (message, answer))

    async def _judge_change(self, task_id: str, task: Task | None, exchanges: Sequence[Exchange]) -> None:
        """A task that may change does so only by a message that names it, asks for it, and was told so or has left."""
        told = [message for message, answer in exchanges if is_result(answer) and message.method in _CHANGING]
        cause = next((message for message in [*told, *self._unanswered] if message.names(task_id)), None)
        if cause in self._unanswered:
            self._unanswered.remove(cause)
        if task is None or cause is None:
            self.report.fault(f"{task_id} changed without a cause, to {task}", _last_of(exchanges, task_id))
        if task is not None:
            self._mine.keep(task)

    def _learn(self, answer: Answer) -> None:
        if made := created(answer):
            self._made.add(made)
            self._targets.made.append(made)
        if b'"inputRequests":{' in answer.body and not answer.is_stream:
            asked: dict[str, Any] = json.loads(answer.body)["result"]
            self._targets.keys[2:] = [*self._targets.keys, *asked["inputRequests"]][-4:]
            self._targets.states[:] = [*self._targets.states, asked.get("requestState", "")][-4:]
        if session := answer.headers.get(b"mcp-session-id"):
            self._targets.sessions[:] = [*self._targets.sessions, session.decode()][-20:]

    async def _tally(self) -> None:
        """See that there is no task but by a call that was answered with one; clear up, and make new targets."""
        mine = self._me
        known = self._made | self._stopped | self._fixed.ids | self._mine.ids
        found = await untold(self._engine, mine, known, self._unheard)
        if len(found) > self._unheard:
            self.report.fault(f"nobody was told of {[*found.values()]}")
        self._unheard = 0
        self._made |= found.keys()
        there = await everything(self._engine, mine)
        for task_id in self._stopped & there.keys():
            await self._engine.forget(there[task_id])
        for task_id in self._made:
            with suppress(Refused, TaskNotFound):
                await self._engine.cancel(task_id, mine)
        self._stopped, self._made = self._made, set()
        self._targets.made.clear()
        self._targets.open[:] = self._targets.open[-_OPEN:]
        for _ in range(_OPEN // 2):
            asking = await an_asking_task(self._engine, self._me)
            self._targets.open.append(asking.id)
            self._mine.keep(asking)
        for task_id in self._mine.ids - {*self._targets.open}:
            self._mine.drop(task_id)
            self._stopped.add(task_id)
            with suppress(Refused, TaskNotFound):
                await self._engine.cancel(task_id, mine)


def _last_of(exchanges: Sequence[Exchange], task_id: str) -> Exchange | None:
    named = [exchange for exchange in exchanges if exchange[0].names(task_id)]
    return named[-1] if named else None
