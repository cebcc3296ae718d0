"""A run of messages in many sessions at once, some of one person, some of nobody in particular."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any

from starlette.types import ASGIApp

from coatcheck import Engine, Status, Task
from coatcheck.lifecycle import Completed
from coatcheck.payload import encode
from coatcheck.server.listing import write_cursor
from tests.fuzz.asgi import PATIENCE, Answer, send
from tests.fuzz.campaign import Report
from tests.fuzz.checks import Rows, answered, complaints, created, untold
from tests.fuzz.messages import Targets
from tests.fuzz.older import HELLOS, answer_to, may_wait, notification
from tests.fuzz.served import SECRET, a_held_task, a_task, an_asking_task, every_kind, owner, owner_in, stop
from tests.fuzz.sessions import Conversation, Session, open_session

ROUNDS, PER_ROUND = 5, 8
LINGER = 0.03
"""Seconds that what may wait is given at least."""
_CHANGING = (b"tasks/cancel", b"tasks/result", b"cancel_task", b"answer_task", b"wait_task")
"""Is in every message that may change a task, if only because its sender is asked something then."""
_CANCELLED = -32800


@dataclass
class Attacker:
    """One owner of tasks, in one session or in several."""

    whose: str
    sessions: list[Session]
    targets: Targets = field(default_factory=Targets)
    known: set[str] = field(default_factory=set[str])
    """Rows that were there before, or that it was told of."""
    waited_for: set[str] = field(default_factory=set[str])
    """Tasks that its messages may have changed, now or later."""
    unheard: int = 0
    """Calls that it gave up before it was told anything, while their work goes on."""

    @property
    def told(self) -> set[str]:
        return {task_id for session in self.sessions for task_id in session.told}


class SessionCampaign:
    """`user` is who all attackers are, each in all sessions; None: each session is someone of its own."""

    def __init__(self, app: ASGIApp, engine: Engine, seed: int, user: str | None, *, has_streams: bool) -> None:
        self._app, self._engine, self._user, self._has_streams = app, engine, user, has_streams
        self._chance = Random(seed)
        self._token = None if user is None else f"token-of-{user}"
        self._victim: list[Task] = []
        self._fixed, self._open = Rows(engine, []), Rows(engine, [])
        self._strays: set[str] = set()
        """Sessions that were opened by the way."""
        self.report = Report()

    async def run(self, messages: int) -> Report:
        alice = None if self._user is None else "token-of-alice"
        theirs = await open_session(self._app, 0, *HELLOS[0], token=alice)
        victim = owner_in(theirs.id) if alice is None else f"{owner('alice')}"
        self._victim = await every_kind(self._engine, victim, SECRET)
        while self.report.messages < messages:
            await self._live()
        await theirs.end()
        await stop(self._engine, victim)
        return self.report

    async def _live(self) -> None:
        """Open sessions, say a few hundred things in them, and end them."""
        self._fixed, self._open = Rows(self._engine, self._victim), Rows(self._engine, [])
        attackers = await self._attackers()
        for _ in range(ROUNDS):
            await self._round(attackers)
        for attacker in attackers:
            if self._chance.random() < 0.5:
                await stop(self._engine, attacker.whose)
            for session in attacker.sessions:
                await self._end(session)
            await stop(self._engine, attacker.whose)
        for stray in self._strays:
            gone = attackers[0].sessions[0].fuzzer.post(b"")
            headers = (*gone.headers[:-1], (b"mcp-session-id", stray.encode()))
            await send(self._app, replace(gone, verb="DELETE", headers=headers))
        self._strays.clear()

    async def _attackers(self) -> list[Attacker]:
        opened: list[Session] = []
        for version, capabilities in HELLOS:
            seed = self._chance.randrange(2**32)
            opened.append(await open_session(self._app, seed, version, capabilities, token=self._token))
            if self._chance.random() < 0.7:
                opened[-1].stand()
        if self._user is None:
            found = [Attacker(owner_in(session.id), [session]) for session in opened]
        else:
            found = [Attacker(f"{owner(self._user)}", opened)]
        for attacker in found:
            await self._equip(attacker)
        everything = {task_id for attacker in found for task_id in attacker.known}
        for attacker in found:
            attacker.targets.foreign = sorted({task.id for task in self._victim} | (everything - attacker.known))
            attacker.targets.guessed = attacker.targets.foreign
        return found

    async def _equip(self, attacker: Attacker) -> None:
        mine = await every_kind(self._engine, attacker.whose)
        expired = await a_task(self._engine, attacker.whose, SECRET, timedelta(microseconds=1))
        targets = attacker.targets
        targets.open, targets.ended = [task.id for task in mine[:3]], [task.id for task in mine[3:]]
        targets.expired = [expired.id]
        attacker.known = {task.id for task in mine}
        for session in attacker.sessions:
            session.fuzzer.targets = targets
            session.fuzzer.cursors += [write_cursor(task.position, task.owner) for task in (mine[-1], self._victim[0])]
        for task in mine:
            (self._fixed if task.status.is_terminal else self._open).keep(task)

    async def _finish(self, attacker: Attacker) -> None:
        """Let a worker elsewhere end a task that may be waited for, and begin another."""
        task_id = self._chance.choice(attacker.targets.open)
        task = await self._engine.get(task_id, attacker.whose)
        if task.lease is None or task.status is not Status.WORKING:
            return
        result = encode({"content": [{"type": "text", "text": "done"}], "isError": self._chance.random() < 0.3})
        self._open.drop(task_id)
        self._fixed.keep(await self._engine.report(task, Completed(task.attempt, result)))
        begun = await self._chance.choice((a_held_task, an_asking_task))(self._engine, attacker.whose)
        self._open.keep(begun)
        attacker.known.add(begun.id)
        attacker.targets.open[:] = [*attacker.targets.open, begun.id][-5:]

    # Saying

    async def _round(self, attackers: Sequence[Attacker]) -> None:
        sessions = [session for attacker in attackers for session in attacker.sessions]
        posted = {session.post(session.fuzzer.message()): session for _ in range(PER_ROUND) for session in sessions}
        prompt = {task for task, session in posted.items() if not may_wait(session.conversation(task).message)}
        _, late = await asyncio.wait(prompt, timeout=PATIENCE)
        for task in late:
            conversation = posted[task].conversation(task)
            self.report.fault("there was no answer", (conversation.message, conversation.answer))
        waiting = posted.keys() - prompt
        for attacker in attackers:
            await self._finish(attacker)
        for _ in range(3):
            replies = await self._reply(sessions)
            if waiting:
                await asyncio.wait(waiting | replies.keys(), timeout=LINGER)
            posted |= replies
        await self._give_up(posted)
        for attacker in attackers:
            ended = [
                session.done(task) for task, session in posted.items() if session in attacker.sessions and task.done()
            ]
            await self._judge(attacker, ended)

    async def _reply(self, sessions: Sequence[Session]) -> dict[asyncio.Task[Answer], Session]:
        """Answer what the server asked, one way or another."""
        posted: dict[asyncio.Task[Answer], Session] = {}
        for session in sessions:
            for question in session.questions:
                if (answer := answer_to(question, self._chance)) is not None:
                    posted[session.post(session.fuzzer.post(answer))] = session
            session.questions.clear()
        if posted:
            await asyncio.wait(posted, timeout=PATIENCE)
        return posted

    async def _give_up(self, posted: dict[asyncio.Task[Answer], Session]) -> None:
        """Leave what is still open, or cancel it; what cannot be cancelled ends with its session."""
        cancels: list[asyncio.Task[Answer]] = []
        left = [task for task in posted if not task.done()]
        for task in left:
            session, conversation = posted[task], posted[task].conversation(task)
            if not self._has_streams or self._chance.random() < 0.5:
                with suppress(ValueError, TypeError, KeyError):
                    number = json.loads(conversation.message.body)["id"]
                    cancel = notification("notifications/cancelled", requestId=number)
                    cancels.append(session.post(session.fuzzer.post(cancel)))
                    posted[cancels[-1]] = session
        if cancels:
            await asyncio.wait(cancels, timeout=PATIENCE)
        for task in left:
            posted[task].conversation(task).leave()
        if left:
            await asyncio.wait(left, timeout=0.1)

    async def _end(self, session: Session) -> None:
        for conversation in await session.end():
            self._complain(conversation)

    # Judging

    async def _judge(self, attacker: Attacker, ended: Sequence[Conversation]) -> None:
        self.report.messages += len(ended)
        for conversation in ended:
            self.report.statuses[conversation.answer.status] += 1
            self._complain(conversation)
            self._learn(attacker, conversation)
        foreign = {*attacker.targets.foreign, *attacker.targets.expired}
        for session in attacker.sessions:
            for task_id in session.seen & foreign:
                self.report.fault(f"it was shown {task_id} of another", _last_of(ended, task_id))
            attacker.targets.made[:] = [*attacker.targets.made, *sorted(session.seen - foreign)][-10:]
            session.seen.clear()
        for task_id, task in (await self._fixed.changed()).items():
            self.report.fault(f"{task_id} may not change, and became {task}", _last_of(ended, task_id))
        await self._judge_changes(attacker, ended)
        await self._judge_untold(attacker)

    def _complain(self, conversation: Conversation) -> None:
        message, answer = conversation.message, conversation.answer
        if answer.status or not conversation.is_left:  # who has left need not be told anything
            for complaint in complaints(message, answer):
                self.report.fault(complaint, (message, answer))

    async def _judge_changes(self, attacker: Attacker, ended: Sequence[Conversation]) -> None:
        """An open task changes only by a message of its owner that names it, or by an answer to what it asked."""
        waiting = [one for session in attacker.sessions for one in session.pending]
        changing = [one for one in [*ended, *waiting] if any(word in one.message.body for word in _CHANGING)]
        attacker.waited_for |= {task_id for task_id in self._open.ids for one in changing if one.message.names(task_id)}
        for task_id, task in (await self._open.changed()).items():
            if task_id not in attacker.known:
                continue  # of another, who is judged in turn
            if task is None or task_id not in attacker.waited_for:
                self.report.fault(f"{task_id} changed without a cause, to {task}", _last_of(ended, task_id))
            if task is not None:
                self._open.keep(task)

    async def _judge_untold(self, attacker: Attacker) -> None:
        attacker.known |= attacker.told
        waiting = [one for session in attacker.sessions for one in session.pending]
        pending = sum(b"tools/call" in one.message.body for one in waiting)
        most = attacker.unheard + pending
        found = await untold(self._engine, attacker.whose, attacker.known, most)
        if len(found) > most:
            self.report.fault(f"nobody was told of {[*found.values()]}")
        attacker.unheard = max(attacker.unheard - len(found), 0)
        attacker.known |= found.keys()

    def _learn(self, attacker: Attacker, conversation: Conversation) -> None:
        answer, targets = conversation.answer, attacker.targets
        if made := created(answer):
            attacker.known.add(made)
            targets.made[:] = [*targets.made, made][-10:]
        said: dict[str, Any] = answered(answer)
        is_given_up = not said or said.get("error", {}).get("code") == _CANCELLED
        if is_given_up and b"tools/call" in conversation.message.body:
            attacker.unheard += 1
        opened = answer.headers.get(b"mcp-session-id", b"").decode()
        if opened and opened not in {session.id for session in attacker.sessions}:
            self._strays.add(opened)


def _last_of(ended: Sequence[Conversation], task_id: str) -> Any:
    named = [(one.message, one.answer) for one in ended if one.message.names(task_id)]
    return named[-1] if named else None
