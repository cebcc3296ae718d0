"""Plain tool calls over HTTP on a server with tasks, against the same on the SDK alone."""

from __future__ import annotations

from functools import partial

import uvloop

from benchmarks.line import Line, Settings, Target, compared
from benchmarks.load import measures
from benchmarks.serving import Served, bare, coatcheck, serving, spent_of
from benchmarks.timing import CALLERS, Spent, alternate

_TURN_SECONDS = 0.25


def run(settings: Settings) -> list[Line]:
    return [uvloop.run(_run(settings))]


async def _run(settings: Settings) -> Line:
    async with serving(coatcheck(settings, "calls")) as ours, serving(bare(settings)) as theirs:
        for server in (ours, theirs):
            await _call(server)
        # Many short turns: what is looked for is smaller than what the machine's mood makes.
        rounds = await alternate(
            settings.rounds,
            partial(_call, ours),
            partial(_call, theirs),
            figure=lambda spent: spent.per_second,
            turns=settings.scaled(12, 4),
        )
    return compared(
        f"plain tools/call, {CALLERS} clients",
        "/s",
        rounds,
        rival="the SDK alone",
        target=Target(">=", 0.9),
        note="by clients that know tasks, of a tool that is none",
    )


async def _call(server: Served) -> Spent:
    found = await measures.call(
        *server, tool="plain", arguments={"a": 1, "b": 2}, clients=CALLERS, duration=_TURN_SECONDS, declare=True
    )
    return spent_of(found)
