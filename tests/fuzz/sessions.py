"""A session of 2025-11-25 over HTTP: hears everything on all its streams, as it comes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from starlette.types import ASGIApp

from tests.fuzz.asgi import PATIENCE, Answer, Exchange
from tests.fuzz.checks import answered
from tests.fuzz.messages import Message, Targets
from tests.fuzz.older import Json, OlderFuzzer, hello, notification, request

_STATUS = "notifications/tasks/status"


class Conversation(Exchange):
    """One request of a session, whose stream is read to its end, or until the client leaves."""

    def __init__(self, message: Message, hear: Callable[[Json], None]) -> None:
        super().__init__(message, patience=10 * PATIENCE)
        self.is_left = False
        self._hear, self._rest = hear, b""

    @property
    def is_unheard(self) -> bool:
        """Whether the client left before it was told anything."""
        return not answered(self.answer)

    async def run(self, app: ASGIApp) -> Answer:
        answer = await super().run(app)
        if not answer.is_stream:
            self._pass_on(answer.body)
        return answer

    def leave(self) -> None:
        self.is_left = True
        super().leave()

    def _heard(self, part: bytes) -> None:
        if self.answer.is_stream:
            *lines, self._rest = (self._rest + part).split(b"\n")
            for line in lines:
                if line.startswith(b"data: "):
                    self._pass_on(line.removeprefix(b"data: "))

    def _pass_on(self, text: bytes) -> None:
        try:
            said: Any = json.loads(text)
        except ValueError:
            return  # which is for others to judge
        if isinstance(said, dict):
            self._hear(cast("Json", said))


class Session:
    """`questions` are what the server asked, `told` the tasks it was told of, `seen` all tasks it heard of."""

    def __init__(self, app: ASGIApp, session: str, fuzzer: OlderFuzzer) -> None:
        self.app, self.id, self.fuzzer = app, session, fuzzer
        self.questions: list[Json] = []
        self.told: set[str] = set()
        self.seen: set[str] = set()
        self._news = asyncio.Event()
        self._running: dict[asyncio.Task[Answer], Conversation] = {}

    @property
    def targets(self) -> Targets:
        return self.fuzzer.targets

    def post(self, message: Message) -> asyncio.Task[Answer]:
        return self._start(Conversation(message, self._hear))

    def stand(self) -> None:
        """Open the stream on which the server may say what belongs to no request."""
        get = replace(self.fuzzer.post(b""), verb="GET")
        self._start(Conversation(get, self._hear))

    def conversation(self, posted: asyncio.Task[Answer]) -> Conversation:
        return self._running[posted]

    def done(self, posted: asyncio.Task[Answer]) -> Conversation:
        """Return what was posted and is answered, or left, and think of it no more."""
        return self._running.pop(posted)

    async def ask(self, method: str, number: Any, **params: Any) -> Json:
        """Send a proper request and return its answer."""
        posted = self.post(self.fuzzer.post(request(method, number, **params)))
        await posted
        return answered(self.done(posted).answer)

    @property
    def pending(self) -> list[Conversation]:
        return [conversation for posted, conversation in self._running.items() if not posted.done()]

    async def end(self) -> list[Conversation]:
        """Delete the session, and see that all of it ends; return what was still open."""
        await self.post(replace(self.fuzzer.post(b""), verb="DELETE"))
        for conversation in self._running.values():
            conversation.leave()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*self._running)
        return [*self._running.values()]

    async def question(self, posted: asyncio.Task[Answer], patience: float = PATIENCE) -> Json | None:
        """Wait for what the server asks next; None: it answered what was posted instead.

        Raises:
            TimeoutError: It did neither.
        """
        posted.add_done_callback(lambda _: self._news.set())
        async with asyncio.timeout(patience):
            while not self.questions and not posted.done():
                self._news.clear()
                await self._news.wait()
        return self.questions.pop(0) if self.questions else None

    def _start(self, conversation: Conversation) -> asyncio.Task[Answer]:
        posted = asyncio.create_task(conversation.run(self.app))
        self._running[posted] = conversation
        return posted

    def _hear(self, said: Json) -> None:
        self._news.set()
        params: Any = said.get("params")
        if "method" in said and "id" in said:
            self.questions.append(said)
        elif said.get("method") == _STATUS:
            self.told.update(_named(params))
        self.seen.update(_named(said.get("result")), _named(params))
        result: Any = said.get("result")
        cursors = [cursor for page in _dicts(result) if isinstance(cursor := page.get("nextCursor"), str)]
        self.fuzzer.cursors[:] = [*self.fuzzer.cursors, *cursors][-10:]


async def open_session(
    app: ASGIApp, seed: int, version: str, capabilities: Json, *, token: str | None = None
) -> Session:
    """Say hello, properly."""
    heard: list[Json] = []
    opening = OlderFuzzer(seed, Targets(), token, version=version)
    answer = await Conversation(opening.post(hello(0, version, capabilities)), heard.append).run(app)
    assert answer.status == 200, answer
    named = answer.headers[b"mcp-session-id"].decode()
    session = Session(app, named, OlderFuzzer(seed, Targets(), token, version=version, session=named))
    posted = session.post(session.fuzzer.post(notification("notifications/initialized")))
    assert (await posted).status == 202
    session.done(posted)
    return session


def _named(value: Any) -> Iterator[str]:
    """Return every task id in what was said."""
    for found in _dicts(value):
        if isinstance(task_id := found.get("taskId"), str):
            yield task_id


def _dicts(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        yield cast("Json", value)
        value = list(cast("Json", value).values())
    if isinstance(value, list):
        for item in cast("Sequence[Any]", value):
            yield from _dicts(item)
