"""What running work may do to its own task: tell how far it is, remember steps, ask its caller, put out parts."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, TypeVar, cast

from coatcheck import answers
from coatcheck.answers import elicitation_answer, request_of
from coatcheck.engine import Engine
from coatcheck.errors import InvalidArgument, LeaseLost, Refused, StoreUnavailable, TaskNotFound
from coatcheck.lifecycle import InputRequested, InputWithdrawn, Noted, Recorded, WorkerEvent, furthest
from coatcheck.payload import Payload, canonical, decode, encode
from coatcheck.task import Entry, InputRequest, Progress, Task

logger = logging.getLogger("coatcheck")

Value = TypeVar("Value")
STEP, OUTPUT = "step", "output"
_RETRY_SECONDS = 1.0
_PAGE = 1000


class TaskContext:
    """What running work on the loop may do to its own task, `task`."""

    __slots__ = (
        "_aside",
        "_asked_for",
        "_asking_since",
        "_engine",
        "_flush",
        "_note",
        "_noted_at",
        "_park",
        "_questions",
        "_recorded",
        "_speaks",
        "_uses",
        "_waits",
        "family",
        "is_stopping",
        "task",
    )

    def __init__(
        self,
        engine: Engine,
        task: Task,
        park: Callable[[], None],
        aside: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """`park` stops the work until its open questions are answered; a new worker then starts it over. `aside` is
        told when the work begins, and ends, to wait for other tasks, which may have its place meanwhile.
        """
        self._engine, self.task, self._park, self._aside = engine, task, park, aside
        self._waits = 0
        self.is_stopping = self._speaks = False
        self.family: Any = None
        """What its work has made of calls of its own; see `coatcheck.family`."""
        self._recorded: dict[str, Payload] | None = None
        self._uses: Counter[str] | None = None
        self._note: Noted | None = None
        self._noted_at = -math.inf
        self._flush: asyncio.TimerHandle | asyncio.Task[None] | None = None
        self._questions = 0
        self._asking_since = 0.0
        self._asked_for = 0.0

    # How far the work is

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell whoever watches how far the work is. Cheap: written at most twice a second; it never runs backwards."""
        for name, value in (("done", done), ("total", total)):
            if value is not None and not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidArgument(f"{name} must be a finite number from 0 up, but it is {value!r}.")
        self._speaks = True
        await self._note_soon(
            Noted(self.task.attempt, message, Progress(done=float(done), total=None if total is None else float(total)))
        )

    async def roll_up(self, done: float, total: float, message: str | None) -> None:
        """Tell how far its children are, as long as the work does not speak for itself."""
        if not self._speaks:
            await self._note_soon(Noted(self.task.attempt, message, Progress(done=done, total=total)))

    async def note(self, message: str) -> None:
        """Say in a sentence what the work is doing."""
        await self._note_soon(Noted(self.task.attempt, message))

    async def flush(self) -> None:
        """Write what was noted and not yet written."""
        if self._flush:
            self._flush.cancel()
            self._flush = None
        note, self._note = self._note, None
        if note:
            self._noted_at = asyncio.get_running_loop().time()
            await self._report(note)

    # What survives a lost worker

    async def step(
        self, name: str, function: Callable[..., Value | Awaitable[Value]], *args: Any, **kwargs: Any
    ) -> Value:
        """Run `function` once, however often the work is run again: later runs get the recorded value.

        Steps of one name are told apart by their order. The value must have a JSON form, and is returned as
        it looks after a round trip through it, so that the first run sees what a later one will see.
        """
        key = self.step_key(name)
        recorded = await self.recall(key)
        if recorded is None:
            made = function(*args, **kwargs)
            recorded = await self.record(key, await made if inspect.isawaitable(made) else made)
        return cast("Value", decode(recorded))

    def step_key(self, name: str) -> str:
        return self._nth(f"{STEP}:{name}")

    async def recall(self, key: str) -> Payload | None:
        """Return what an earlier run recorded under `key`."""
        if self._recorded is None:
            self._recorded = await self._read_journal()
        return self._recorded.get(key)

    async def record(self, key: str, value: Any) -> Payload:
        payload = encode(value)
        await self._append(STEP, key, payload)
        return payload

    async def output(self, chunk: Any) -> None:
        """Put out a part of the result, in order, for the caller to read while the work goes on.

        Work that is run again puts out what it already had without the caller seeing it twice.
        """
        key, payload = self._nth(OUTPUT), encode(chunk)
        if await self.recall(key) != payload:
            await self._append(OUTPUT, key, payload)

    # Other tasks

    def is_of(self, engine: Engine) -> bool:
        """Whether this is where its task is kept."""
        return self._engine is engine

    def child_key(self, tool: str, arguments: Payload) -> str:
        """Return what a call of its own is known by: work that is run again finds the child it has made."""
        told = hashlib.blake2b(tool.encode() + b"\0" + canonical(arguments), digest_size=12).hexdigest()
        return self._nth(f"child:{told}")

    @contextmanager
    def standing_aside(self) -> Generator[None]:
        """Wait for other tasks meanwhile: those may have the place of this one, or they might never get one."""
        self._waits += 1
        if self._waits == 1:
            self._aside(True)
        try:
            yield
        finally:
            self._waits -= 1
            if self._waits == 0:
                self._aside(False)

    # Questions to the caller

    async def elicit(self, message: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Ask a person; return the action (accept, decline, cancel) and, if accepted, the content."""
        params = {"mode": "form", "message": message, "requestedSchema": schema}
        return await self.ask("elicitation/create", params, elicitation_answer(schema))

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any],
        answer_schema: Mapping[str, Any] | None = None,
        *,
        judges_itself: bool = False,
        key: str | None = None,
    ) -> Any:
        """Put a question to the caller and return the answer, in the protocol's words. It may take days.

        A question is known by its content, and equal ones by their order, so work that is run again gets the
        answers it already had; or by `key`. `judges_itself`: an answer that cannot be refused is returned even if it
        does not fit.

        Raises:
            NotAnswered: The caller answered with an error.
        """
        request = request_of(method, params, answer_schema, judges_itself=judges_itself)
        is_ours = key is None  # else another task's, which need not be what the work is waiting for
        key = key or self._nth(_fingerprint(request))
        if key not in self.task.input_responses:
            self._questions += 1
            if self._questions == 1:
                self._asking_since = asyncio.get_running_loop().time()
            try:
                # The answer may come by a parent that is run again, and would find no place where its children wait.
                with self.standing_aside() if self.task.is_child else nullcontext():
                    await self._put(key, request, is_ours=is_ours)
            finally:
                self._questions -= 1
                if self._questions == 0:
                    self._asked_for += asyncio.get_running_loop().time() - self._asking_since
        return answers.read(self.task.input_responses[key])

    @property
    def is_asking(self) -> bool:
        return self._questions > 0

    def seconds_waited(self) -> float:
        """Return for how long the work has been waiting for answers."""
        asking = asyncio.get_running_loop().time() - self._asking_since if self.is_asking else 0.0
        return self._asked_for + asking

    async def _put(self, key: str, request: InputRequest, *, is_ours: bool) -> None:
        policy = self._engine.policy
        await self.flush()  # whoever is asked should see how far the work is
        await self._report_once(
            InputRequested(self.task.attempt, {key: request}, policy.patience), partial(self._has, key)
        )
        loop = asyncio.get_running_loop()
        park_at = loop.time() + (policy.park_after.total_seconds() if self.task.resumable else math.inf)
        try:
            while key not in self.task.input_responses:
                wait = partial(self._engine.wait, self.task, min(max(park_at - loop.time(), 0.0), 3600.0))
                fresh = await self.outlasting(wait)
                if fresh.lease is None or fresh.attempt != self.task.attempt:
                    raise LeaseLost(f"Attempt {self.task.attempt} no longer holds task {self.task.id}")
                self.learn(fresh)
                if loop.time() >= park_at and key not in self.task.input_responses:
                    is_idle = is_ours or self._waits > 0
                    park_at = math.inf if is_idle else loop.time() + _RETRY_SECONDS
                    if is_idle:
                        self._park()
        except asyncio.CancelledError:
            if not self.is_stopping:  # the work itself gave up on the question
                with suppress(Refused, TaskNotFound):
                    await asyncio.shield(self._report(InputWithdrawn(self.task.attempt, (key,))))
            raise

    async def _has(self, key: str) -> bool:
        """Whether the question was put, by what the store has now."""
        self.learn(await self._engine.get(self.task.id, self.task.owner))
        return key in self.task.input_requests or key in self.task.input_responses

    # Writing

    async def _note_soon(self, note: Noted) -> None:
        if self._note:
            progress = furthest(self._note.progress, note.progress)
            note = Noted(note.attempt, note.message or self._note.message, progress)
        self._note = note
        loop = asyncio.get_running_loop()
        due = self._noted_at + self._engine.policy.note_interval.total_seconds()
        if loop.time() >= due:
            await self.flush()
        elif self._flush is None:
            self._flush = loop.call_at(due, self._flush_later)

    def _flush_later(self) -> None:
        async def flush() -> None:
            self._flush = None
            with suppress(Refused, TaskNotFound):  # whoever took the task away has the last word
                await self.flush()

        self._flush = asyncio.get_running_loop().create_task(flush())

    async def _append(self, kind: str, key: str, value: Payload) -> None:
        entry = Entry(kind=kind, key=key, value=value, at=self._engine.clock())
        before = self.task.entries

        async def is_recorded() -> bool:
            return key in [other.key for other in await self._journal(before)]

        await self._report_once(Recorded(self.task.attempt, (entry,)), is_recorded)

    async def _report_once(self, event: WorkerEvent, is_written: Callable[[], Awaitable[bool]]) -> None:
        """Report what must not be written twice; if the store went away meanwhile, look first whether it was."""
        is_again = False

        async def report() -> None:
            nonlocal is_again
            if not (is_again and await is_written()):
                is_again = True
                self.learn(await self._engine.report(self.task, event))

        await self.outlasting(report)

    async def _report(self, event: WorkerEvent) -> None:
        self.learn(await self.outlasting(lambda: self._engine.report(self.task, event)))

    async def outlasting(self, act: Callable[[], Awaitable[Value]]) -> Value:
        """Do what needs the store, again until it is there: work that came this far does not fail by its absence."""
        while True:
            try:
                return await act()
            except StoreUnavailable as error:
                logger.warning("Task %s waits for its store: %s", self.task.id, error)
                await asyncio.sleep(_RETRY_SECONDS)

    def learn(self, fresh: Task) -> None:
        """Take over what the store has now, unless a newer state is known already."""
        if fresh.version > self.task.version:
            self.task = fresh

    async def _read_journal(self) -> dict[str, Payload]:
        if self.task.attempt == 1 or self.task.entries == 0:
            return {}
        return {entry.key: entry.value for entry in await self.outlasting(lambda: self._journal(0))}

    async def _journal(self, after: int) -> Sequence[Entry]:
        """Read what was recorded after so many entries."""
        read: list[Entry] = []
        while True:
            page = await self._engine.journal(self.task.id, self.task.owner, after=after + len(read), limit=_PAGE)
            read += page
            if len(page) < _PAGE:
                return read

    def _nth(self, name: str) -> str:
        if self._uses is None:
            self._uses = Counter()
        self._uses[name] += 1
        return f"{name}#{self._uses[name]}"


def _fingerprint(request: InputRequest) -> str:
    return hashlib.blake2b(request.method.encode() + canonical(request.params), digest_size=8).hexdigest()
