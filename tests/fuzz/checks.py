"""What must hold for every answer, and for the rows after every batch."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Generator, Iterable, Sequence, Set
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, cast

import msgspec

from coatcheck import Engine, Task
from coatcheck.errors import TaskNotFound
from tests.fuzz.asgi import PATIENCE, Answer
from tests.fuzz.known import is_known, is_known_error
from tests.fuzz.messages import Message
from tests.fuzz.served import SECRET

STATUSES = {200, 202, 307, 400, 401, 403, 404, 405, 406, 413, 415, 421}
"""What an answer may be: everything else is unforeseen."""
INTERNAL_ERROR = -32603
_INSIDE = re.compile(rb"Traceback|site-packages|\.py\b|Error\(|coatcheck\.|object at 0x|msgspec|sqlite")


def complaints(message: Message, answer: Answer) -> Generator[str]:
    """Say what is wrong with an answer, if anything is."""
    if is_known(message, answer):
        return
    if answer.is_late:
        yield "there was no answer"
    if answer.raised:
        yield f"the application raised {answer.raised!r}"
    if not answer.status:
        yield "the application said nothing"
        return
    if answer.status not in STATUSES:
        yield f"unforeseen status {answer.status}"
    if SECRET.encode() in answer.body:
        yield "it tells what its sender may not know"
    if (found := _INSIDE.search(answer.body)) and found[0] not in message.body:
        yield f"it tells of its insides: {found[0]!r}"
    yield from _of_content(message, answer)


def _of_content(message: Message, answer: Answer) -> Generator[str]:
    kind = answer.headers.get(b"content-type", b"")
    if answer.is_stream:
        for event in _events(answer.body):
            yield from _of_json(event, is_answer=False)
    elif kind.startswith(b"application/json") and answer.body and answer.status not in (401, 403):
        yield from _of_json(answer.body, is_answer=True)
    elif answer.status == 200 and message.verb == "POST" and not message.is_cut:
        yield f"an answer that is no JSON: {kind!r}"


def _events(stream: bytes) -> Iterable[bytes]:
    return [line.removeprefix(b"data: ") for line in stream.splitlines() if line.startswith(b"data: ")]


def answered(answer: Answer) -> dict[str, Any]:
    """Return the JSON-RPC answer, on whatever it came; empty: there was none, or none that is JSON."""
    for text in _events(answer.body) if answer.is_stream else [answer.body]:
        try:
            said: Any = json.loads(text)
        except ValueError:
            continue
        envelope = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
        if "jsonrpc" in envelope and ("result" in envelope or "error" in envelope):
            return envelope
    return {}


def _of_json(text: bytes, *, is_answer: bool) -> Generator[str]:
    try:
        said: Any = json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        yield f"no JSON: {error}"
        return
    envelope = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
    if envelope.get("jsonrpc") != "2.0":
        yield "no JSON-RPC"
    elif is_answer and ("result" in envelope) == ("error" in envelope):
        yield "not one of result and error"
    elif (error := envelope.get("error", {})).get("code") == INTERNAL_ERROR:
        yield f"an internal error: {error}"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def is_result(answer: Answer) -> bool:
    return answer.status == 200 and b'"result":{' in answer.body


def created(answer: Answer) -> str | None:
    """Return the id of the task that a call became: as a task of either generation, or as a ticket."""
    if answer.status != 200 or b'"taskId":"' not in answer.body:
        return None
    match answered(answer).get("result"):
        case {"resultType": "task", "taskId": str(made)}:
            return made
        case {"task": {"taskId": str(made)}} | {"structuredContent": {"task": {"taskId": str(made)}}}:
            return made
        case _:
            return None


class Rows:
    """Rows as they were, to compare with what they are."""

    def __init__(self, engine: Engine, tasks: Sequence[Task]) -> None:
        self._engine = engine
        self._kept = {task.id: (task.owner, msgspec.json.encode(task)) for task in tasks}

    @property
    def ids(self) -> set[str]:
        return set(self._kept)

    def keep(self, task: Task) -> None:
        self._kept[task.id] = (task.owner, msgspec.json.encode(task))

    def drop(self, task_id: str) -> None:
        del self._kept[task_id]

    async def changed(self) -> dict[str, Task | None]:
        """Return the rows that are not as they were; None: gone."""
        found: dict[str, Task | None] = {}
        for task_id, (owner, kept) in self._kept.items():
            try:
                task = await self._engine.get(task_id, owner)
            except TaskNotFound:
                found[task_id] = None
                continue
            if msgspec.json.encode(task) != kept:
                found[task_id] = task
        return found


async def everything(engine: Engine, whose: str | None) -> dict[str, Task]:
    """Return all tasks of an owner."""
    found: list[Task] = []
    while page := await engine.list(whose, limit=1000, after=found[-1].position if found else None):
        found += page
    return {task.id: task for task in found}


async def untold(engine: Engine, whose: str | None, known: Set[str], most: int) -> dict[str, Task]:
    """Return the tasks of an owner that are not known. If there are too many, what is being forgotten gets time."""
    found = await everything(engine, whose)
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while len(found.keys() - known) > most:  # as nobody tells when one is forgotten
                await asyncio.sleep(0.02)
                found = await everything(engine, whose)
    return {task_id: found[task_id] for task_id in found.keys() - known}


class _Heard(logging.Handler):
    def __init__(self, is_forgiving: bool) -> None:
        super().__init__(logging.ERROR)
        self._is_forgiving = is_forgiving
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not (self._is_forgiving and is_known_error(record)):
            self.records.append(record)


@contextmanager
def heard_errors(*, is_forgiving: bool = True) -> Generator[list[logging.LogRecord]]:
    """Collect what is logged as an error meanwhile, by anyone, but for what is known; keep the rest from stderr."""
    root, heard = logging.getLogger(), _Heard(is_forgiving)
    before, level = list(root.handlers), root.level
    root.handlers[:] = [heard]
    root.setLevel(logging.ERROR)
    try:
        yield heard.records
    finally:
        root.handlers[:] = before
        root.setLevel(level)


def told(record: logging.LogRecord) -> str:
    """Return a record in a line, with the exception that came with it, and its cause."""
    error = record.exc_info[1] if record.exc_info else None
    cause = f" from {error.__cause__!r:.500}" if error and error.__cause__ else ""
    return f"{record.name}: {record.getMessage()[:300]} {error!r:.300}{cause}"
