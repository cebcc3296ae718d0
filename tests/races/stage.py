"""The tools the races are about, which do as they are told, and the server that has them."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.mcpserver import Context
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from pydantic import BaseModel

from coatcheck.server import TaskPolicy, TaskServer
from tests.races.wire import PATIENCE

PROMOTED = 3.0
"""Seconds after which the caller of `promoted` is not kept waiting any longer. Still quick."""
HELD = 45.0
"""Seconds after which the caller of any other tool gets a ticket."""
_FOR_EVER = 36_000.0
_WHO = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Name(BaseModel):
    name: str


class Stage:
    """What the tools of all races wait for, by the label of a call, and what became of them."""

    def __init__(self) -> None:
        self._events: defaultdict[tuple[str, str], asyncio.Event] = defaultdict(asyncio.Event)
        self.runs: Counter[str] = Counter()
        self.outcomes: defaultdict[str, list[str]] = defaultdict(list)
        self._labels = 0

    def label(self) -> str:
        self._labels += 1
        return f"call {self._labels}"

    def event(self, label: str, word: str) -> asyncio.Event:
        return self._events[label, word]

    def say(self, label: str, word: str) -> None:
        self._events[label, word].set()

    async def hears(self, label: str, word: str) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._events[label, word].wait()


def build(stage: Stage, store: str = "memory://", **options: Any) -> TaskServer:
    """Return a server whose tools the stage directs. It never looks by itself, which would hide what it missed."""
    terms: dict[str, Any] = {"heartbeat": _FOR_EVER, "grace": 0.5, "max_unfinished": None}
    server = TaskServer("races", version="1", store=store, **terms, **options)
    work = _work(stage)
    server.add_tool(work, "work", task=True)
    server.add_tool(work, "promoted", task=TaskPolicy("optional", promote_after=PROMOTED))
    server.add_tool(work, "given_up", task=TaskPolicy("optional", cancel_on_disconnect=True))
    server.add_tool(_ask(stage), "ask", task=True)
    server.add_tool(_in_rounds(stage), "in_rounds", task=True)
    return server


def _work(stage: Stage) -> Callable[[str], Awaitable[str]]:
    async def work(label: str) -> str:
        """Work until told to be done."""
        stage.runs[label] += 1
        stage.say(label, "begun")
        await stage.event(label, "go").wait()
        stage.outcomes[label].append("done")
        return f"{label} is done"

    return work


def _ask(stage: Stage) -> Callable[[str, Context], Awaitable[str]]:
    async def note(label: str, ctx: Context) -> None:
        await stage.event(label, "note").wait()
        await ctx.report_progress(1, 2, "Still asking")

    async def ask(label: str, ctx: Context) -> str:
        """Ask who, until told that it is enough; and make a note meanwhile, when told to."""
        stage.runs[label] += 1
        asking = asyncio.create_task(ctx.elicit("Who?", Name))
        enough = asyncio.create_task(stage.event(label, "enough").wait())
        noting = asyncio.create_task(note(label, ctx))
        try:
            await asyncio.wait((asking, enough), return_when=asyncio.FIRST_COMPLETED)
            stage.outcomes[label].append(_said(asking.result()) if asking.done() else "gave up")
            return stage.outcomes[label][-1]
        finally:
            for part in (asking, enough, noting):
                part.cancel()
            await asyncio.gather(asking, enough, noting, return_exceptions=True)

    return ask


def _said(answer: Any) -> str:
    return answer.data.name if answer.action == "accept" else answer.action


def _in_rounds(stage: Stage) -> Callable[[str, Context], Awaitable[str | InputRequiredResult]]:
    async def in_rounds(label: str, ctx: Context) -> str | InputRequiredResult:
        """Ask who by multi-round-trip."""
        stage.runs[label] += 1
        given = (ctx.input_responses or {}).get("who")
        if isinstance(given, ElicitResult) and given.content:
            return str(given.content["name"])
        form = ElicitRequestFormParams(message="Who?", requested_schema=_WHO)
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=form)})

    return in_rounds
