"""What servers ask: each question is put to the client's callbacks once, whatever happens to the connection."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Protocol, cast

from coatcheck.client.wire import Json
from coatcheck.dialects.seen import Question
from coatcheck.dialects.words import QUESTION_KEY
from coatcheck.payload import canonical, encode

Put = Callable[[Question], Awaitable[Json]]
"""Asks whoever is to be asked."""


class Memory(Protocol):
    """Where answers are kept until their task has ended."""

    def answer(self, question: str) -> Json | None: ...

    def answered(self, question: str, answer: Json) -> None: ...

    def arrived(self, question: str) -> None:
        """Forget an answer that has arrived."""
        ...


class Questions:
    """The questions of one task."""

    def __init__(self, put: Put, memory: Memory, losses: Callable[[], int]) -> None:
        """`losses`: how many connections have been lost so far."""
        self._put, self._memory, self._losses = put, memory, losses
        self._asked: dict[str, asyncio.Task[Json]] = {}
        self._waiting = Counter[str]()
        self._nameless: dict[str, int] = {}
        """Questions that came without a key, and how many connections had been lost when they were answered last."""

    async def ask(self, question: Question, key: str | None = None) -> Json:
        """Return the answer to a question: a new one, or the one that was given before."""
        key = key or _key(question)
        name = key or _digest(question)
        asked = self._asked.get(name)
        if asked and asked.done() and (_failed(asked) or self._is_another(name, key)):
            asked = None
        if asked is None:
            known = self._memory.answer(name) if name not in self._asked else None
            asked = self._asked[name] = asyncio.create_task(self._answer(name, question, known))
        self._waiting[name] += 1
        try:
            return await asyncio.shield(asked)  # whoever is asked goes on thinking when the connection is lost
        finally:
            self._waiting[name] -= 1
            if key is None:
                self._nameless[name] = self._losses()

    def _is_another(self, name: str, key: str | None) -> bool:
        """Whether this only reads the same: nothing was lost since that was answered, so it is no repeat."""
        return key is None and self._nameless.get(name) == self._losses()

    def withdraw(self, still_open: Collection[str] = ()) -> None:
        """Ask no longer what nobody wants to know any more."""
        for name, asked in self._asked.items():
            if name not in still_open and not asked.done():
                asked.cancel()

    def settle(self) -> None:
        """Note that the task goes on: what was answered has arrived, and what no request waits for is not wanted."""
        self.withdraw([name for name, waiting in self._waiting.items() if waiting])
        for name in [name for name in self._nameless if not self._waiting[name]]:
            del self._nameless[name], self._asked[name]
            self._memory.arrived(name)

    def reopen(self, key: str) -> None:
        """Forget an answer that would not do."""
        self._asked.pop(key, None)
        self._memory.arrived(key)

    async def close(self) -> None:
        unanswered = [asked for asked in self._asked.values() if not asked.done()]
        for asked in unanswered:
            asked.cancel()
        await asyncio.gather(*unanswered, return_exceptions=True)

    async def _answer(self, name: str, question: Question, known: Json | None) -> Json:
        if known is not None:
            return known
        answer = await self._put(question)
        self._memory.answered(name, answer)
        return answer


def _failed(asked: asyncio.Task[Json]) -> bool:
    return asked.cancelled() or asked.exception() is not None


def _key(question: Question) -> str | None:
    meta: Any = question.params.get("_meta")
    key = cast("Json", meta).get(QUESTION_KEY) if isinstance(meta, dict) else None
    return key if isinstance(key, str) else None


def _digest(question: Question) -> str:
    """Return a name for a question that came without the key the task has for it."""
    content = {name: value for name, value in question.params.items() if name != "_meta"}
    return hashlib.blake2b(canonical(encode([question.method, content])), digest_size=12).hexdigest()
