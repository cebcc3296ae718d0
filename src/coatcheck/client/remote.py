"""A task on a server, followed to its end: looked at, listened to, and answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Protocol

from mcp.shared.exceptions import MCPError
from msgspec import structs

from coatcheck.client import pace
from coatcheck.client.channel import Channel, Line, itself
from coatcheck.client.generations import generation
from coatcheck.client.news import Feed, News
from coatcheck.client.push import Push
from coatcheck.client.questions import Questions
from coatcheck.client.refusals import of_task
from coatcheck.client.wire import Json
from coatcheck.dialects.seen import Question, Snapshot
from coatcheck.dialects.words import METHOD_NOT_FOUND
from coatcheck.errors import InvalidArgument, ServerError, TaskCancelled, TaskLost, ToolFailed
from coatcheck.task import Progress, Status

logger = logging.getLogger("coatcheck")
_GRACE_SECONDS = 60.0
_PARTING_SECONDS = 1.0
_MOST_FAULTS = 10
_MOST_LOOKS = 3
"""For the result of a task that is said to have one, and does not show it."""
Told = Callable[[Snapshot], None]


class Source(Protocol):
    """Where a handle has its task from."""

    snapshot: Snapshot
    unanswerable: Mapping[str, Question]
    """What it asks that nobody here can answer."""

    @property
    def is_task(self) -> bool:
        """Whether the server keeps it, so that it outlives the connection."""
        ...

    async def look(self) -> Snapshot:
        """Return the task as it is now."""
        ...

    async def follow(self, told: Told) -> None:
        """Tell of every change, until the last one."""
        ...

    async def collect(self) -> Json:
        """Return the result of a task that has ended."""
        ...

    async def answer(self, responses: Mapping[str, Json]) -> None: ...

    async def cancel(self) -> None: ...

    async def close(self) -> None: ...


class RemoteTask:
    is_task = True

    def __init__(
        self, snapshot: Snapshot, link: Line, news: News, push: Push | None, questions: Questions, *, is_known: bool
    ) -> None:
        """`is_known`: whether the server itself said so; otherwise no more is known than the id."""
        self.snapshot = snapshot
        self._is_known = is_known
        self.unanswerable: Mapping[str, Question] = {}
        self.questions = questions
        self._link, self._news, self._push = link, news, push
        self._id = snapshot.id
        self._met_at = asyncio.get_running_loop().time()
        self._answering: dict[str, asyncio.Task[None]] = {}
        self._answered: set[str] = set()
        self._speaking = asyncio.Lock()
        """Some servers talk nonsense about a task that is answered at the same time."""
        self._failure: BaseException | None = None

    async def look(self) -> Snapshot:
        snapshot = await self._look()
        if self._news.is_followed(self._id):  # then it is for those to note who follow it
            self._news.tell(snapshot)
        else:
            self.snapshot = snapshot
        return snapshot

    async def _look(self) -> Snapshot:
        with of_task(self._id):
            async with self._news.looks, self._speaking:
                snapshot = await self._link.run(lambda connection: generation(connection).get(self._id))
        self._is_known = True
        return snapshot

    async def follow(self, told: Told) -> None:
        feed = self._news.follow(self._id)
        if self._push:
            self._push.add()
        try:
            await self._follow(feed, told)
        finally:
            self._news.leave(feed)
            if self._push and not self._news.is_followed(self._id):
                self._push.remove(self._id)
            await self._stop_answering()

    async def collect(self) -> Json:
        """Return the result.

        Raises:
            TaskCancelled, ToolFailed, TaskLost: There is none.
        """
        for attempt in range(_MOST_LOOKS):
            if self._complete(self.snapshot):
                break
            await asyncio.sleep(attempt and pace.pause(self.snapshot.poll_interval, 0, is_told=False))
            self.snapshot = await self._look()
        if self.snapshot.status is Status.CANCELLED:
            raise TaskCancelled(self._id, self.snapshot.message)
        try:
            result = await self._link.run(self._result)
        except MCPError as error:
            raise ToolFailed(error.message, error.code, error.error.data) from error
        if self.snapshot.status is Status.FAILED and "content" not in result:
            raise ToolFailed(self.snapshot.message or "The task failed")  # all that some servers have to say
        return result

    async def answer(self, responses: Mapping[str, Json]) -> None:
        """Answer questions by their keys.

        Raises:
            InvalidArgument: The server does not take the answer; the question is still open.
        """
        try:
            async with self._speaking:
                await self._link.run(lambda connection: generation(connection).answer(self._id, responses))
        except MCPError as error:
            await self._look()  # which raises, if that is the reason
            for key in responses:
                self.questions.reopen(key)
            raise InvalidArgument(f"The server does not take the answer: {error.message}") from error
        self._answered.update(responses)
        self.unanswerable = {key: asked for key, asked in self.unanswerable.items() if key not in responses}

    async def cancel(self) -> None:
        try:
            with of_task(self._id):
                await self._link.run(lambda connection: generation(connection).cancel(self._id))
        except ServerError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            raise ServerError("this server cannot cancel tasks", error.code) from error
        except TaskLost:  # in 2025-11-25, one that has ended cannot be cancelled either
            await self.look()
        self._news.wake(self._id)

    async def close(self) -> None:
        await self._stop_answering()
        await self.questions.close()

    async def _follow(self, feed: Feed, told: Told) -> None:
        unchanged, faults = -1, 0
        if not self._is_known:
            self.snapshot = await self._look()
            told(self.snapshot)
        while not self.snapshot.is_terminal:
            await self._attend(told)
            heard = await feed.wait(self._pause(unchanged))
            if failure := self._failure:
                self._failure = None
                raise failure
            before = self.snapshot
            try:
                self._see(self._complete(heard) or await self._look(), before)
                faults = 0
            except ServerError as error:  # it may be better in a moment
                faults += 1
                if faults > _MOST_FAULTS:
                    raise
                logger.info("Cannot look at task %s just now: %s", self._id, error)
            self._check_lifetime()
            if self.snapshot.is_news_after(before):
                unchanged = 0
                told(self.snapshot)
            else:
                unchanged += 1
        self.questions.withdraw()

    def _pause(self, unchanged: int) -> float:
        is_told = self._push is not None and self._push.tells_of(self._id)
        may_be_told = self._push is not None and self._push.may_tell
        return pace.pause(self.snapshot.poll_interval, unchanged, is_told=is_told, may_be_told=may_be_told)

    def progressed(self, progress: Progress, message: str | None) -> None:
        """Note progress that was told of beside the task."""
        message = message or self.snapshot.message
        self._news.tell(structs.replace(self.snapshot, progress=progress, message=message))

    def _see(self, snapshot: Snapshot, before: Snapshot) -> None:
        if snapshot.progress is None and before.progress:
            snapshot = structs.replace(snapshot, progress=before.progress)
        if snapshot.updated_at and before.updated_at and snapshot.updated_at < before.updated_at:
            snapshot = before  # what was heard may be older than what has been looked at
        self.snapshot = snapshot

    def _complete(self, heard: Snapshot | None) -> Snapshot | None:
        """Return what was heard, if it says all there is to say; some servers leave out what is in the task."""
        if heard is None:
            return None
        lacks = (heard.status is Status.COMPLETED and heard.result is None) or (
            heard.status is Status.FAILED and heard.error is None
        )
        asks = heard.status is Status.INPUT_REQUIRED and not heard.questions
        connection = self._link.connection
        return None if (lacks or asks) and connection and connection.is_modern else heard

    def _check_lifetime(self) -> None:
        """Give up on a task that the server should long have forgotten, and still says to be at work."""
        ttl = self.snapshot.ttl
        if ttl is None or self.snapshot.is_terminal:
            return
        if asyncio.get_running_loop().time() > self._met_at + ttl.total_seconds() + _GRACE_SECONDS:
            raise TaskLost(self._id, f"its lifetime of {ttl.total_seconds():g} seconds is over, and it has not ended")

    async def _attend(self, told: Told) -> None:
        """See to what the task asks."""
        connection = await self._link.run(itself)
        if self.snapshot.status is not Status.INPUT_REQUIRED:
            self.unanswerable = {}
            if connection.is_modern:
                self.questions.withdraw()
            else:
                self.questions.settle()
        elif connection.is_modern:
            self._answer_by_key(connection, told)
        else:
            self._be_asked(connection, told)

    def _answer_by_key(self, connection: Channel, told: Told) -> None:
        # A server may show a question for a while after it took the answer.
        questions = {key: asked for key, asked in self.snapshot.questions.items() if key not in self._answered}
        self.questions.withdraw(questions)
        before = self.unanswerable
        self.unanswerable = {key: asked for key, asked in questions.items() if not connection.can_answer(asked.method)}
        for key, question in questions.items():
            if key not in self._answering and key not in self.unanswerable:
                self._do(key, self._answer(key, question))
        if self.unanswerable != before:
            told(self.snapshot)

    def _be_asked(self, connection: Channel, told: Told) -> None:
        """In 2025-11-25, questions come to whoever waits for the result."""
        if not any(connection.can_answer(method) for method in ("elicitation/create", "sampling/createMessage")):
            if not self.unanswerable:
                self.unanswerable = {"unknown": Question("elicitation/create", {})}
                told(self.snapshot)
        elif "" not in self._answering:
            self._do("", self._wait_for_result())

    def _do(self, name: str, work: Coroutine[None, None, None]) -> None:
        doing = self._answering[name] = asyncio.create_task(work)
        doing.add_done_callback(lambda _: self._done(name, doing))

    def _done(self, name: str, doing: asyncio.Task[None]) -> None:
        if doing.cancelled() or (error := doing.exception()) is None:
            return
        self._answering.pop(name, None)
        self._failure = error
        self._news.wake(self._id)

    async def _answer(self, key: str, question: Question) -> None:
        answer = await self.questions.ask(question, key)
        await self.answer({key: answer})

    async def _wait_for_result(self) -> None:
        try:
            await self._link.run(self._result)
            self._news.wake(self._id)
        except MCPError as error:
            logger.debug("Task %s: %s", self._id, error)  # its own, or the server's: the next look will tell
        finally:
            self._answering.pop("", None)

    async def _result(self, connection: Channel) -> Json:
        return await generation(connection).result(self.snapshot)

    async def _stop_answering(self) -> None:
        answering = [doing for doing in self._answering.values() if not doing.done()]
        if self.snapshot.is_terminal and answering and "" in self._answering:
            # The result is on its way: some servers do not survive that it is cancelled in this moment.
            await asyncio.wait(answering, timeout=_PARTING_SECONDS)
            answering = [doing for doing in answering if not doing.done()]
        self._answering.clear()
        for doing in answering:
            doing.cancel()
        await asyncio.gather(*answering, return_exceptions=True)
